package chart

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var bg = context.Background()

var update = flag.Bool("update", false, "write the rendered manifests to testdata")

// What each set of values renders is known, whole.
func TestRendered(t *testing.T) {
	for name, values := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			got, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v: run go test ./test/chart -run TestRendered -update, and read what it writes", err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("Rendered otherwise than %s (-want +got); if it is meant so, run with -update:\n%s", golden, diff)
			}
		})
	}
}

func TestLint(t *testing.T) {
	for name, values := range valueSets(t) {
		if out, err := helm(t, "lint", "--strict", chart, "--values", values); err != nil {
			t.Errorf("Lint with %s = %v\n%s", name, err, out)
		}
	}
}

// Every value is documented, and the schema knows all of them and no other.
func TestValuesAreInTheSchema(t *testing.T) {
	var values, schema yaml.Node
	read := func(name string, to *yaml.Node) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(chart, name))
		if err == nil {
			err = yaml.Unmarshal(b, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read("values.yaml", &values)
	read("values.schema.json", &schema)
	compare(t, "", values.Content[0], schema.Content[0])
}

// compare walks values.yaml and the schema side by side.
func compare(t *testing.T, at string, values, schema *yaml.Node) {
	t.Helper()
	properties := field(schema, "properties")
	if properties == nil {
		return // a free form, such as affinity
	}
	if more := field(schema, "additionalProperties"); more == nil || more.Value != "false" {
		t.Errorf("The schema takes unknown keys in %q", at)
	}
	seen := map[string]bool{"global": true}
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		seen[key.Value] = true
		known := field(properties, key.Value)
		if known == nil {
			t.Errorf("The schema has no %s.%s", at, key.Value)
			continue
		}
		if value.Kind == yaml.MappingNode && field(known, "properties") != nil {
			compare(t, at+"."+key.Value, value, known)
		}
	}
	for i := 0; i < len(properties.Content); i += 2 {
		if name := properties.Content[i].Value; !seen[name] {
			t.Errorf("Values.yaml has no %s.%s, which the schema takes", at, name)
		}
	}
}

func field(m *yaml.Node, name string) *yaml.Node {
	for i := 0; m.Kind == yaml.MappingNode && i < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i+1]
		}
	}
	return nil
}

// A value that cannot be is refused, and the error says what can.
func TestRefused(t *testing.T) {
	link := filepath.Join("testdata", "link-local.values.yaml")
	for _, tc := range []struct{ set, want string }{
		{"image.repository=", "image.repository is missing: there is no public image yet"},
		{"nodecache.mode=linkLocal", "additional properties 'nodecache' not allowed"},
		{"nodeCache.adresses={169.254.20.10}", "additional properties 'adresses' not allowed"},
		{"image.repository=registry.example/coredns:v1", "/image/repository"},
		{"nodeCache.mode=linklocal", "value must be one of 'linkLocal', 'serviceIP', 'localRedirect'"},
		{"nodeCache.mode=serviceIP,clusterDNS.serviceIPs=null", "kubectl -n kube-system get service kube-dns"},
		{"nodeCache.addresses={169.254.20.300}", "/nodeCache/addresses/0"},
		{"nodeCache.addresses={169.254.20.10,169.254.20.11}", "two of one IP family"},
		{"nodeCache.addresses={fe80::10}", "a unique local one"},
		{"nodeCache.addresses=null", "nodeCache.addresses is empty"},
		{"nodeCache.addresses={10.96.0.10},clusterDNS.serviceIPs={10.96.0.10}", "the former are the node's own"},
		{"nodeCache.interface=a-name-that-is-too-long", "/nodeCache/interface"},
		{"nodeCache.rules=ipvs", "value must be one of 'auto', 'nftables', 'iptables', 'none'"},
		{"nodeCache.maxSurge=0", "/nodeCache/maxSurge"},
		{"nodeCache.maxSurge=0%", "/nodeCache/maxSurge"},
		{"nodeCache.cache.bytes=32MB", "/nodeCache/cache/bytes"},
		{"nodeCache.cache.clusterTTL=30s", "/nodeCache/cache/clusterTTL"},
		{"nodeCache.snapshot.hostPath=var/lib", "/nodeCache/snapshot/hostPath"},
		{"nodeCache.metrics.address=9253", "/nodeCache/metrics/address"},
		{"nodeCache.metrics.serviceMonitor.enabled=true,nodeCache.metrics.service.enabled=false", "it finds the pods by it"},
		{"nodeCache.control.secretName=x,nodeCache.control.callers=null", "nobody could call"},
		{"nodeCache.control.callers={Jane}", "/nodeCache/control/callers/0"},
		{"nodeCache.corefile=x,upstream.servers={192.0.2.53}", "would do nothing"},
		{"clusterDomain=cluster.local.", "/clusterDomain"},
		{"upstream.servers={192.0.2.53 192.0.2.54}", "/upstream/servers/0"},
	} {
		out, err := render(t, link, "--set", tc.set)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Values %s = %v, want to be refused with %q\n%s", tc.set, err, tc.want, out)
		}
	}
	if out, err := render(t, filepath.Join("testdata", "local-redirect.values.yaml"), "--namespace", "dns"); err == nil || !strings.Contains(err.Error(), "the namespace of cluster DNS") {
		t.Errorf("Cilium's policy in another namespace = %v, want to be refused\n%s", err, out)
	}
}

// On the host's network a declared port would be the node's own: the pod that is
// to take over could not be scheduled.
func TestNoPortsOnTheHost(t *testing.T) {
	ports := regexp.MustCompile(`(?m)^\s*(- )?(containerPort|hostPort):`)
	for name, values := range valueSets(t) {
		got, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		onHost := strings.Contains(got, "hostNetwork: true")
		if onHost == ports.MatchString(got) {
			t.Errorf("%s: on the host's network: %v, declares ports: %v; want one of the two", name, onHost, !onHost)
		}
	}
}
