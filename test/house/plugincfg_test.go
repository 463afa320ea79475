package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pluginCfg are the lines for a stock CoreDNS's plugin.cfg in build/README.md:
// directive and package.
func pluginCfg(t *testing.T) [][2]string {
	t.Helper()
	text := read(t, "build/README.md")
	_, rest, ok := strings.Cut(text, "``` plugin.cfg\n")
	if !ok {
		t.Fatal("No block fenced as plugin.cfg in build/README.md")
	}
	cfg, _, _ := strings.Cut(rest, "```")
	var lines [][2]string
	for line := range strings.Lines(cfg) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		directive, pkg, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("%q is no line of a plugin.cfg", line)
		}
		lines = append(lines, [2]string{directive, pkg})
	}
	return lines
}

func TestEveryPluginHasItsLine(t *testing.T) {
	lines := pluginCfg(t)
	for _, name := range plugins(t) {
		if !slices.Contains(lines, [2]string{name, module + "/plugin/" + name}) {
			t.Errorf("Build/README.md has no line %s:%s/plugin/%s for a stock plugin.cfg", name, module, name)
		}
	}
}

// Our plugins build into a CoreDNS that is not ours: its own main and its own
// generated directives, with the lines of build/README.md, and nothing of
// build/coredns. What is generated from plugin.cfg is written here as CoreDNS's
// generator writes it; whoami stands for the stock plugins.
func TestPluginsBuildIntoAStockCoreDNS(t *testing.T) {
	if testing.Short() {
		t.Skip("Builds a DNS server: not with -short")
	}
	lines := pluginCfg(t)
	var imports, directives strings.Builder
	for _, l := range append([][2]string{{"bind", "github.com/coredns/coredns/plugin/bind"}}, lines...) {
		imports.WriteString("\t_ \"" + l[1] + "\"\n")
		directives.WriteString("\t\t\"" + l[0] + "\",\n")
	}
	main := "package main\n\nimport (\n" + imports.String() + `	_ "github.com/coredns/coredns/plugin/whoami"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
)

func init() {
	dnsserver.Directives = []string{
` + directives.String() + "\t\t\"whoami\",\n\t}\n}\n\nfunc main() { coremain.Run() }\n"

	// A module of its own that requires ours, with ours' own versions: no network.
	dir := t.TempDir()
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mod := strings.Replace(read(t, "go.mod"), "module "+module, "module example.org/stock", 1) +
		"\nrequire " + module + " v0.0.0\nreplace " + module + " => " + here + "\n"
	for name, content := range map[string]string{"main.go": main, "go.mod": mod, "go.sum": read(t, "go.sum")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-mod=mod", "-o", "stock", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("A stock CoreDNS with our plugins does not build: %v\n%s", err, out)
	}
	out, err := exec.Command(filepath.Join(dir, "stock"), "-plugins").CombinedOutput()
	if err != nil {
		t.Fatalf("Stock -plugins: %v\n%s", err, out)
	}
	for _, l := range lines {
		if !slices.Contains(strings.Fields(string(out)), l[0]) {
			t.Errorf("Directive %s is not registered by %s:\n%s", l[0], l[1], out)
		}
	}
}
