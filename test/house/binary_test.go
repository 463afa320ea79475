package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// quoted are the strings in a Go file's list.
var quoted = regexp.MustCompile(`(?m)^\s+"([a-z0-9_]+)",`)

// listed are the directives in a Go source, in their order.
func listed(src string) (names []string) {
	for _, m := range quoted.FindAllStringSubmatch(src, -1) {
		names = append(names, m[1])
	}
	return names
}

// stockDirectives are CoreDNS's own, in its order.
func stockDirectives(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/coredns/coredns")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "core", "dnsserver", "zdirectives.go"))
	if err != nil {
		t.Fatal(err)
	}
	return listed(string(src))
}

// leftOut are stock plugins that the build does not have: build/README.md says why.
var leftOut = []string{"azure", "clouddns", "route53", "nomad", "trace"}

// The stock plugins stand in the stock order, all but those left out, so that a
// stock Corefile means what it meant; ours stand where the design wants them.
func TestDirectiveOrder(t *testing.T) {
	got := listed(read(t, "build/coredns/directives.go"))
	ours := plugins(t)
	var stock []string
	for _, d := range stockDirectives(t) {
		if !slices.Contains(leftOut, d) {
			stock = append(stock, d)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(got), func(d string) bool { return slices.Contains(ours, d) })
	if !slices.Equal(rest, stock) {
		t.Errorf("Stock directives = %q\nwant %q", rest, stock)
	}
	for _, name := range ours {
		if !slices.Contains(got, name) {
			t.Errorf("Directive %s is not in build/coredns/directives.go", name)
		}
	}
	at := func(d string) int { return slices.Index(got, d) }
	for _, order := range [][]string{{"health", "control", "nodelocal", "clients"}, {"shed", "clients", "drill", "prometheus"}} {
		for i := 1; i < len(order); i++ {
			if at(order[i-1]) >= at(order[i]) {
				t.Errorf("Directive %s stands after %s, want before it", order[i-1], order[i])
			}
		}
	}
	for _, name := range leftOut {
		if !strings.Contains(read(t, "build/README.md"), "`"+name+"`") {
			t.Errorf("Build/README.md does not say why %s is left out", name)
		}
	}
}

// Each directive has its plugin in the binary, and the other way round.
func TestBinaryHasThePlugins(t *testing.T) {
	if testing.Short() {
		t.Skip("Builds the DNS server: not with -short")
	}
	out, err := exec.Command(binary(t), "-plugins").Output()
	if err != nil {
		t.Fatal(err)
	}
	has := strings.Fields(string(out))
	want := listed(read(t, "build/coredns/directives.go"))
	slices.Sort(has)
	slices.Sort(want)
	if !slices.Equal(has, want) {
		t.Errorf("Plugins in the binary = %q\nwant %q", has, want)
	}
}

func TestCheckAndProbe(t *testing.T) {
	if testing.Short() {
		t.Skip("Builds the DNS server: not with -short")
	}
	p := newPlace(t)
	run := func(args ...string) (int, string) {
		cmd := exec.Command(binary(t), args...)
		cmd.Dir = p.dir
		out, _ := cmd.CombinedOutput() // the exit code says it
		return cmd.ProcessState.ExitCode(), string(out)
	}
	corefile := p.fit(". {\n bind x\n ready\n control unix:///c\n errors\n whoami\n}\n")
	if err := os.WriteFile(filepath.Join(p.dir, "good"), []byte(corefile), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "bad"), []byte(". {\n forward\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"check", "-conf", "good"}, 0, "good: ok"},
		{[]string{"check", "-conf", "bad"}, 1, "plugin/forward"},
		{[]string{"check", "-conf", "none"}, 1, "no such file"},
		{[]string{"check", "good"}, 2, "-conf"},
		{[]string{"probe", "http://127.0.0.1:1/ready"}, 1, "refused"},
		{[]string{"probe", "ftp://x"}, 2, "dns://"},
		{[]string{"probe", "unix:///nowhere/control.sock"}, 1, "no server has this socket"},
		{[]string{"probe", "unix://control.sock"}, 2, "a socket's path is absolute"},
		{[]string{"probe", "-live", "http://127.0.0.1:1/health"}, 2, "-live goes with unix"},
		{[]string{"probe", "--help"}, 0, "Usage: coredns probe"},
		{[]string{"-version"}, 0, "+firebreak."},
	} {
		if code, out := run(tc.args...); code != tc.code || !strings.Contains(out, tc.want) {
			t.Errorf("Coredns %s = %d %q, want %d and %q", strings.Join(tc.args, " "), code, out, tc.code, tc.want)
		}
	}
	serve := exec.Command(binary(t), "-conf", "good")
	serve.Dir = p.dir
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = serve.Process.Kill(); _ = serve.Wait() }()
	for _, args := range [][]string{
		{"http://127.0.0.1:" + p.port("8181") + "/ready"},
		{"dns://127.0.0.1:" + p.port("53") + "/example.org"},
		{"unix://" + p.path("/c")},
		{"-live", "unix://" + p.path("/c")},
	} {
		code, out := -1, ""
		for range 100 {
			if code, out = run(append([]string{"probe"}, args...)...); code == 0 {
				break
			}
		}
		if code != 0 || strings.Count(out, "\n") != 1 {
			t.Errorf("Probe of %s = %d %q, want 0 and one line", args, code, out)
		}
	}
}
