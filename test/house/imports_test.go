package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// pkg is a package as `go list` says it.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// graph is every package that the module needs, by import path.
type graph map[string]*pkg

// rule says what some of our packages may not import.
type rule struct {
	who    func(path string) bool // path is without the module's own
	not    func(path string) bool // full import path
	deep   bool                   // not through others either
	tests  bool                   // nor in tests
	reason string
}

var rules = []rule{
	{
		who: under("plugin"), not: ours("controller"), deep: true, tests: true,
		reason: "a plugin runs in every DNS server, also in a stock CoreDNS without the controller",
	},
	{
		who: func(p string) bool { return under("plugin")(p) && !under("plugin/hedge")(p) }, not: kubernetes, deep: true,
		reason: "only hedge watches EndpointSlices: the other plugins stay small, and run where there is no cluster",
	},
	{
		who: pure, not: func(p string) bool {
			return kubernetes(p) || p == "net" || strings.HasPrefix(p, "net/") && p != "net/netip"
		},
		reason: "the engine is pure, so that transcripts can test it: what it knows is given to it as data",
	},
	{
		who: pure, not: kubernetes, deep: true,
		reason: "the engine is pure, also through what it imports",
	},
	{
		who: func(p string) bool { return under("controller")(p) && !under("controller/kube")(p) }, not: kubernetes, deep: true,
		reason: "only controller/kube knows Kubernetes: the rest works on a fleet without any",
	},
	{
		who: under("controller"), not: func(p string) bool {
			return ours("plugin")(p) && !ours("plugin/pkg/protocol")(p)
		}, deep: true, tests: false,
		reason: "controller and server meet in the protocol alone, so that versions of the two can differ",
	},
	{
		who: func(p string) bool { return !under("build")(p) }, not: ours("build"), tests: true,
		reason: "build holds the programs: what two of them share belongs in a package below",
	},
	between("coredns", "controller", "firebreak"),
	between("controller", "coredns", "firebreak"),
	between("firebreak", "coredns", "controller"),
}

// between has a program import nothing of the others; its own parts it may.
func between(program string, others ...string) rule {
	return rule{
		who: under("build/" + program), not: func(p string) bool {
			return slices.ContainsFunc(others, func(o string) bool { return ours("build/" + o)(p) })
		}, tests: true,
		reason: "build holds the programs: what two of them share belongs in a package below",
	}
}

// under says that a package is in one of our folders.
func under(dir string) func(string) bool {
	return func(p string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
}

// ours says that an import is of one of our folders.
func ours(dir string) func(string) bool {
	return func(p string) bool {
		rest, ok := strings.CutPrefix(p, module+"/")
		return ok && under(dir)(rest)
	}
}

func kubernetes(p string) bool {
	return strings.HasPrefix(p, "k8s.io/") || strings.HasPrefix(p, "sigs.k8s.io/controller-runtime")
}

func pure(p string) bool {
	return under("controller/run")(p) || under("controller/rollout")(p) || under("controller/assembly")(p)
}

// violations are where the graph breaks a rule, with the reason.
func violations(g graph, rules []rule) []string {
	var found []string
	for path, p := range g {
		own, ok := strings.CutPrefix(path, module+"/")
		if !ok {
			continue
		}
		for _, r := range rules {
			if !r.who(own) {
				continue
			}
			imports := p.Imports
			if r.tests {
				imports = append(append(append([]string{}, imports...), p.TestImports...), p.XTestImports...)
			}
			for _, trail := range g.trails(imports, r) {
				found = append(found, fmt.Sprintf("%s imports %s: %s", own, strings.Join(trail, ", which imports "), r.reason))
			}
		}
	}
	return found
}

// trails are the ways from the imports to what the rule forbids, one for each
// import, the shortest first.
func (g graph) trails(imports []string, r rule) [][]string {
	var found [][]string
	seen := map[string]bool{}
	queue := make([][]string, 0, len(imports))
	for _, i := range imports {
		queue = append(queue, []string{i})
	}
	hit := map[string]bool{} // first steps that already have a trail
	for len(queue) > 0 {
		trail := queue[0]
		queue = queue[1:]
		last := trail[len(trail)-1]
		if hit[trail[0]] || seen[last] && len(trail) > 1 {
			continue
		}
		seen[last] = true
		if r.not(last) {
			hit[trail[0]] = true
			found = append(found, trail)
			continue
		}
		if !r.deep || g[last] == nil {
			continue
		}
		for _, next := range g[last].Imports {
			queue = append(queue, append(append([]string{}, trail...), next))
		}
	}
	return found
}

func load(t *testing.T) graph {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("Go list: %v\n%s", err, stderr.String())
	}
	g := graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &pkg{}
		err := dec.Decode(p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		g[p.ImportPath] = p
	}
	if g[module+"/plugin/control"] == nil {
		t.Fatal("Plugin/control is not in the graph: the test looks at the wrong place")
	}
	return g
}

func TestWhoMayImportWhom(t *testing.T) {
	for _, v := range violations(load(t), rules) {
		t.Error(v)
	}
}

// Each rule catches what it is there for, and lets pass what it allows.
func TestImportRulesCatch(t *testing.T) {
	tests := []struct {
		name  string
		graph map[string][]string // from our packages (without the module's path) to imports
		tests map[string][]string
		want  string // part of the only violation; "" is none
	}{
		{"plugin to controller", map[string][]string{"plugin/drill": {"controller/run"}}, nil, "every DNS server"},
		{"plugin to controller through another", map[string][]string{"plugin/drill": {"x"}, "x": {"controller/run"}}, nil, "x, which imports"},
		{"plugin's test to controller", nil, map[string][]string{"plugin/drill": {"controller/pki"}}, "every DNS server"},
		{"plugin to Kubernetes", map[string][]string{"plugin/drill": {"k8s.io/api/core/v1"}}, nil, "only hedge"},
		{"plugin to Kubernetes through a library", map[string][]string{"plugin/drill": {"example.org/lib"}, "example.org/lib": {"k8s.io/client-go"}}, nil, "example.org/lib, which imports"},
		{"hedge to Kubernetes", map[string][]string{"plugin/hedge": {"k8s.io/api/discovery/v1"}}, nil, ""},
		{"engine to net", map[string][]string{"controller/run": {"net"}}, nil, "pure"},
		{"engine to net/http", map[string][]string{"controller/rollout": {"net/http"}}, nil, "pure"},
		{"engine to net/netip", map[string][]string{"controller/assembly": {"net/netip"}}, nil, ""},
		{"controller to Kubernetes", map[string][]string{"controller/view": {"k8s.io/api/core/v1"}}, nil, "only controller/kube"},
		{"controller to controller-runtime", map[string][]string{"controller/fleet": {"sigs.k8s.io/controller-runtime/pkg/client"}}, nil, "only controller/kube"},
		{"kube to Kubernetes", map[string][]string{"controller/kube/drill": {"k8s.io/api/core/v1", "sigs.k8s.io/controller-runtime"}}, nil, ""},
		{"controller to a plugin", map[string][]string{"controller/fleet": {"plugin/control"}}, nil, "protocol alone"},
		{"controller to the protocol", map[string][]string{"controller/fleet": {"plugin/pkg/protocol", "plugin/pkg/protocol/mtls"}}, nil, ""},
		{"controller to another of plugin/pkg", map[string][]string{"controller/fleet": {"plugin/pkg/wire"}}, nil, "protocol alone"},
		{"into build", map[string][]string{"test/chaos": {"build/coredns"}}, nil, "build holds the programs"},
		{"a test into build", nil, map[string][]string{"test/chaos": {"build/coredns"}}, "build holds the programs"},
		{"a program into another", map[string][]string{"build/coredns": {"build/firebreak/cmd"}}, nil, "build holds the programs"},
		{"a program into its own parts", map[string][]string{"build/firebreak": {"build/firebreak/cmd"}}, nil, ""},
		{"build to all", map[string][]string{"build/coredns": {"plugin/control", "controller/run", "k8s.io/api/core/v1"}}, nil, ""},
	}
	full := func(p string) string {
		if first, _, _ := strings.Cut(p, "/"); first == "plugin" || first == "controller" || first == "build" || first == "test" || first == "x" {
			return module + "/" + p
		}
		return p
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			g := graph{}
			at := func(p string) *pkg {
				p = full(p)
				if g[p] == nil {
					g[p] = &pkg{ImportPath: p}
				}
				return g[p]
			}
			for p, imports := range tc.graph {
				for _, i := range imports {
					at(p).Imports = append(at(p).Imports, full(i))
				}
			}
			for p, imports := range tc.tests {
				for _, i := range imports {
					at(p).XTestImports = append(at(p).XTestImports, full(i))
				}
			}
			got := violations(g, rules)
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), tc.want)) {
				t.Errorf("Violations = %q, want %q", got, tc.want)
			}
		})
	}
}
