package house

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// labels that a metric may have: each has few values, whatever a stranger does.
var labels = map[string]string{
	"server":    "a listener's address",
	"reason":    "a constant",
	"result":    "a constant",
	"mode":      "a drill's",
	"transport": "udp, tcp, tls, https, ...",
	"route":     "a pattern that a plugin registered",
	"code":      "an HTTP status",
	"client":    "the busiest clients, of which there are as many as the Corefile says, and one for the others",
	"name":      "the same clients' names",
	"upstream":  "an address in the Corefile",
	"zone":      "a zone that is served",
	"type":      "a query type that CoreDNS names, or other",
	"rcode":     "a response code",
	"family":    "1 or 2",
	"errortype": "a constant; NodeLocal DNSCache has it",
	"to":        "an upstream's address, whose series go with it",
	"why":       "a constant",
	"cause":     "a constant",
	"source":    "a constant, or an upstream as the Corefile has it",
}

// noData are plugins and metrics that are not on the way of a query, so that
// there is no server to name.
var noData = map[string]bool{
	"coredns_control":                true,
	"coredns_drill_ends_total":       true, // drills are the process's
	"coredns_clients_client_":        true, // the table is the process's
	"coredns_nodecache_entries":      true, // the store is the process's
	"coredns_nodecache_bytes":        true,
	"coredns_nodecache_evictions":    true,
	"coredns_nodecache_setup_errors": true, // the node's
	"coredns_nodelocal":              true, // the node's
	// What is known of an upstream is shared by all who ask it.
	"coredns_hedge_asked":           true,
	"coredns_hedge_answer_duration": true,
	"coredns_hedge_late_answers":    true,
	"coredns_hedge_budget_denied":   true,
	"coredns_hedge_ejections":       true,
	"coredns_hedge_mismatches":      true,
	"coredns_hedge_source_errors":   true,
	"coredns_hedge_ejected":         true,
	"coredns_hedge_upstreams":       true,
	"coredns_hedge_loop":            true,
}

// metric is one in the source.
type metric struct {
	where, name, help, kind string
	labels                  []string
}

// metricsIn reads the metrics that a package makes with client_golang.
func metricsIn(t *testing.T, sources map[string]string) []metric {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	consts := map[string]string{"plugin.Namespace": "coredns"}
	for name, src := range sources {
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				for i, id := range v.Names {
					if i < len(v.Values) {
						if lit, ok := v.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
							consts[id.Name] = constant.StringVal(constant.MakeFromLiteral(lit.Value, lit.Kind, 0))
						}
					}
				}
			}
			return true
		})
	}
	text := func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			return constant.StringVal(constant.MakeFromLiteral(e.Value, e.Kind, 0))
		case *ast.Ident:
			return consts[e.Name]
		case *ast.SelectorExpr:
			if x, ok := e.X.(*ast.Ident); ok {
				return consts[x.Name+"."+e.Sel.Name]
			}
		}
		return ""
	}
	list := func(e ast.Expr) (all []string) {
		if lit, ok := e.(*ast.CompositeLit); ok {
			for _, el := range lit.Elts {
				all = append(all, text(el))
			}
		}
		return all
	}
	kinds := regexp.MustCompile(`^New(Counter|Gauge|Histogram|Summary)(Vec|Func)?$`)
	var found []metric
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			m := metric{where: fset.Position(call.Pos()).String()}
			switch {
			case kinds.MatchString(sel.Sel.Name) && len(call.Args) > 0:
				opts, ok := call.Args[0].(*ast.CompositeLit)
				if !ok {
					return true
				}
				m.kind = kinds.FindStringSubmatch(sel.Sel.Name)[1]
				parts := map[string]string{}
				for _, el := range opts.Elts {
					if kv, ok := el.(*ast.KeyValueExpr); ok {
						if key, ok := kv.Key.(*ast.Ident); ok {
							parts[key.Name] = text(kv.Value)
						}
					}
				}
				m.name, m.help = parts["Namespace"]+"_"+parts["Subsystem"]+"_"+parts["Name"], parts["Help"]
				if len(call.Args) > 1 && strings.HasSuffix(sel.Sel.Name, "Vec") {
					m.labels = list(call.Args[1])
				}
			case sel.Sel.Name == "NewDesc" && len(call.Args) == 4:
				fq, ok := call.Args[0].(*ast.CallExpr)
				if !ok || len(fq.Args) != 3 {
					t.Errorf("%s: name it with prometheus.BuildFQName(plugin.Namespace, pluginName, ...)", m.where)
					return true
				}
				m.name = text(fq.Args[0]) + "_" + text(fq.Args[1]) + "_" + text(fq.Args[2])
				m.help, m.labels = text(call.Args[1]), list(call.Args[2])
			default:
				return true
			}
			found = append(found, m)
			return true
		})
	}
	return found
}

// faults are what is wrong with a metric of a plugin.
func (m metric) faults(plugin string) (found []string) {
	say := func(what string) { found = append(found, what) }
	if !strings.HasPrefix(m.name, "coredns_"+plugin+"_") {
		say("its name begins with coredns_" + plugin + "_")
	}
	if !regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)+$`).MatchString(m.name) {
		say("its name is of lower-case words with underscores")
	}
	total := strings.HasSuffix(m.name, "_total")
	if m.kind == "Counter" && !total {
		say("a counter's name ends in _total")
	}
	if (m.kind == "Gauge" || m.kind == "Histogram") && total {
		say("only a counter's name ends in _total")
	}
	if regexp.MustCompile(`_(ms|milliseconds|minutes|kb|percent)(_|$)`).MatchString(m.name) {
		say("its unit is a base unit: seconds, bytes, ratio")
	}
	if len(m.help) < 10 || !strings.HasSuffix(m.help, ".") {
		say("it has a help text, a sentence")
	}
	if strings.HasPrefix(m.help, "Counter of") != (total) && m.kind != "" {
		say("a counter's help begins with \"Counter of\", no other's does")
	}
	for _, l := range m.labels {
		if labels[l] == "" {
			say("label " + l + " is not on the list: add it there with what bounds its values")
		}
	}
	free := false
	for prefix := range noData {
		free = free || strings.HasPrefix(m.name, prefix)
	}
	if !free && len(m.labels) > 0 && m.labels[0] != "server" {
		say("server is its first label, as in all of CoreDNS's")
	}
	return found
}

func TestMetrics(t *testing.T) {
	for _, plugin := range plugins(t) {
		sources := map[string]string{}
		for _, file := range files(t, ".go") {
			if strings.HasPrefix(file, "plugin/"+plugin+"/") && !strings.HasSuffix(file, "_test.go") && path.Dir(file) == "plugin/"+plugin {
				sources[file] = read(t, file)
			}
		}
		found := metricsIn(t, sources)
		if len(found) == 0 {
			t.Errorf("Plugin/%s has no metrics: what it does cannot be seen", plugin)
		}
		readme := ""
		if there, _ := filepath.Glob(filepath.Join(root, "plugin", plugin, "README.md")); len(there) > 0 {
			readme = read(t, "plugin/"+plugin+"/README.md")
		}
		for _, m := range found {
			for _, f := range m.faults(plugin) {
				t.Errorf("%s: %s: %s", m.where, m.name, f)
			}
			if readme != "" && !strings.Contains(readme, "`"+m.name+"`") && !strings.Contains(readme, "`"+m.name+"{"+strings.Join(m.labels, ", ")+"}`") {
				t.Errorf("plugin/%s/README.md does not say `%s{%s}`", plugin, m.name, strings.Join(m.labels, ", "))
			}
		}
	}
}

// The linter finds what it is there for.
func TestMetricsLint(t *testing.T) {
	src := `package x
import ("github.com/coredns/coredns/plugin"; "github.com/prometheus/client_golang/prometheus"; "github.com/prometheus/client_golang/prometheus/promauto")
const pluginName = "x"
var (
	good = promauto.NewCounterVec(prometheus.CounterOpts{Namespace: plugin.Namespace, Subsystem: pluginName, Name: "queries_total", Help: "Counter of queries."}, []string{"server", "mode"})
	bad = promauto.NewCounterVec(prometheus.CounterOpts{Namespace: plugin.Namespace, Subsystem: "y", Name: "wait_ms", Help: ""}, []string{"qname", "server"})
	desc = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "entries"), "Entries in it.", []string{"server"}, nil)
)`
	got := map[string][]string{}
	for _, m := range metricsIn(t, map[string]string{"x.go": src}) {
		got[m.name] = m.faults("x")
	}
	if len(got) != 3 || len(got["coredns_x_queries_total"]) != 0 || len(got["coredns_x_entries"]) != 0 {
		t.Errorf("Faults = %q, want none of the good ones", got)
	}
	for _, want := range []string{"begins with coredns_x_", "ends in _total", "base unit", "a sentence", "label qname", "first label"} {
		if !slices.ContainsFunc(got["coredns_y_wait_ms"], func(f string) bool { return strings.Contains(f, want) }) {
			t.Errorf("Faults of the bad one = %q, want %q", got["coredns_y_wait_ms"], want)
		}
	}
}
