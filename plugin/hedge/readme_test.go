package hedge

import (
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/prometheus/client_golang/prometheus"
)

// TestReadme: every Corefile of the README starts.
func TestReadme(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```corefile\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(found) != 3 {
		t.Fatalf("%d Corefiles", len(found))
	}
	for _, f := range found {
		port := freePort(t)
		corefile := regexp.MustCompile(`(?m)^(\S+) \{`).ReplaceAllString(f[1], "$1:"+port+" {\nbind 127.0.0.1")
		inst, err := caddy.Start(input(corefile))
		if err != nil {
			t.Errorf("%s\n%v", corefile, err)
			continue
		}
		s := &server{inst: inst, addr: net.JoinHostPort("127.0.0.1", port)}
		s.settle(t)
		s.stop(t)
	}
}

// TestReadmeMetrics: the README lists the metrics that there are.
func TestReadmeMetrics(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for _, m := range regexp.MustCompile("`(coredns_hedge_[a-z_]+)").FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, "coredns_hedge_") && !documented[name] {
			t.Errorf("%s is not in the README", name)
		}
	}
	for _, c := range []prometheus.Collector{
		questionsTotal, failuresTotal, askedTotal, durationSeconds, lateTotal, deniedTotal, ejectionsTotal, mismatchesTotal,
		sourceErrors, ejectedGauge, upstreamsGauge, loopsGauge, outageGauge,
	} {
		descs := make(chan *prometheus.Desc, 1)
		c.Describe(descs)
		name := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch((<-descs).String())[1]
		if !documented[name] {
			t.Errorf("%s is not in the README", name)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("%s is in the README, and nowhere else", name)
	}
}
