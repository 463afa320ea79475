package scrape

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/plugin/pkg/reuseport"
	"github.com/prometheus/client_golang/prometheus"
)

// generation is a process's metrics, and prometheus's own listener beside ours.
func generation(t *testing.T, addr string, number float64) *server {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "generation"}, func() float64 { return number }))
	s, err := serve(addr, reg)
	if err != nil {
		t.Fatal(err)
	}
	own, err := reuseport.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	beside := &http.Server{Handler: s.http.Handler, ReadHeaderTimeout: within}
	go func() { _ = beside.Serve(own) }()
	t.Cleanup(func() { _ = beside.Close() })
	s.http.RegisterOnShutdown(func() { _ = beside.Close() }) // the process ends
	return s
}

// scraped says how many of n scrapes, each on a connection of its own, read which
// generation.
func scraped(t *testing.T, addr string, n int) map[string]int {
	t.Helper()
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	out := make(map[string]int)
	for range n {
		r, err := client.Get("http://" + addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r.Status, err)
		}
		for line := range strings.Lines(string(b)) {
			if value, ok := strings.CutPrefix(line, "generation "); ok {
				out[strings.TrimSpace(value)]++
			}
		}
	}
	return out
}

// TestNewestIsScraped: of three generations at one address the newest is read, and
// when it ends those before it.
func TestNewestIsScraped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	const n = 60
	want := func(number int) {
		t.Helper()
		if got := scraped(t, addr, n); got[fmt.Sprint(number)] != n {
			t.Errorf("read were %v, want %d alone", got, number)
		}
	}
	first := generation(t, addr, 1)
	first.take(addr)
	want(1)
	second := generation(t, addr, 2)
	second.take(addr)
	want(2)
	first.close()
	second.take(addr) // as it does when another one left
	want(2)
	third := generation(t, addr, 3)
	third.take(addr)
	want(3)
	third.close()
	second.take(addr)
	want(2)
	second.close()
}

// TestKnowsTLS: what says whether prometheus serves over TLS is a field that may be
// renamed by its next version.
func TestKnowsTLS(t *testing.T) {
	m := metrics.New("127.0.0.1:0")
	if overTLS(m) {
		t.Error("prometheus without TLS is taken for one with it: has tlsConfigPath another name?")
	}
	if f := reflect.ValueOf(m).Elem().FieldByName("tlsConfigPath"); f.IsValid() && f.Kind() == reflect.String {
		return
	}
	t.Error("there is no tlsConfigPath")
}
