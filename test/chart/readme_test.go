package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const readmeHead = `# The chart

Firebreak's node cache on every node of a cluster, in place of NodeLocal DNSCache. How to install it is in
[docs/node-cache.md](../../docs/node-cache.md#install-with-helm), how to come from NodeLocal DNSCache in
[docs/migrate-from-nodelocal.md](../../docs/migrate-from-nodelocal.md). The table below is made from [values.yaml](values.yaml)
(` + "`go test ./test/chart -run TestReadme -update`" + `); what each value may be is in [values.schema.json](values.schema.json).

| value | default | |
|---|---|---|
`

// The chart's README has every value, as values.yaml says it.
func TestReadme(t *testing.T) {
	var values yaml.Node
	b, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, &values); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString(readmeHead)
	describe(t, &want, "", values.Content[0])

	file := filepath.Join(chart, "README.md")
	if *update {
		if err := os.WriteFile(file, []byte(want.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("charts/firebreak/README.md is not what values.yaml says: run with -update (-want +got):\n%s", diff)
	}
}

// describe writes a row for each value, and holds that each has a comment or is
// only there to hold others that have.
func describe(t *testing.T, out *strings.Builder, at string, values *yaml.Node) {
	t.Helper()
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		name := strings.TrimPrefix(at+"."+key.Value, ".")
		_, comment, documented := strings.Cut("\n"+key.HeadComment, "\n# -- ")
		if !documented {
			switch {
			case plain[name]:
				fmt.Fprintf(out, "| `%s` | `%s` | as in Kubernetes |\n", name, inline(value))
			case value.Kind == yaml.MappingNode:
				describe(t, out, name, value)
			default:
				t.Errorf("Values.yaml: %s has no comment that begins with # --", name)
			}
			continue
		}
		var words []string
		for _, line := range strings.Split(comment, "\n") {
			words = append(words, strings.TrimSpace(strings.TrimPrefix(line, "#")))
		}
		fmt.Fprintf(out, "| `%s` | `%s` | %s |\n", name, inline(value), strings.ReplaceAll(strings.Join(words, " "), "|", `\|`))
	}
}

// plain are the values that mean what they mean in Kubernetes.
var plain = map[string]bool{
	"nodeCache.tolerations": true, "nodeCache.nodeSelector": true, "nodeCache.affinity": true,
	"nodeCache.podLabels": true, "nodeCache.podAnnotations": true,
	"nodeCache.serviceAccount.annotations": true, "nodeCache.metrics.service.annotations": true,
	"nodeCache.metrics.serviceMonitor.interval": true, "nodeCache.metrics.serviceMonitor.labels": true,
}

// inline is a value on one line.
func inline(value *yaml.Node) string {
	switch value.Kind {
	case yaml.MappingNode:
		var parts []string
		for i := 0; i < len(value.Content); i += 2 {
			parts = append(parts, value.Content[i].Value+": "+inline(value.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		var parts []string
		for _, v := range value.Content {
			parts = append(parts, inline(v))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if value.Value == "" {
		return `""`
	}
	return value.Value
}
