package nodecache

import (
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
)

func parsed(t *testing.T, corefile string) (*options, *processOptions, error) {
	t.Helper()
	c := caddy.NewTestController("dns", corefile)
	c.ServerBlockKeys = []string{"."}
	p := &processOptions{}
	o, err := parse(c, p)
	return o, p, err
}

func TestParse(t *testing.T) {
	o, p, err := parsed(t, "nodecache")
	if err != nil || o.lifetimes.positive.most != 30 || o.lifetimes.negative.most != 5 || o.lifetimes.failure != 5 || p.size() != 32<<20 || o.zones[0] != "." {
		t.Error(o, p, err)
	}
	if o.holdFor(positive, "a.example.") != 3600 || o.holdFor(positive, "a.svc.cluster.local.") != 600 || o.holdFor(failure, "a.example.") != 0 {
		t.Error("held for the wrong time")
	}
	o, p, err = parsed(t, `nodecache 60 example.org {
		success 9984 300 2
		denial 9984 7
		servfail 2s
		disable denial bad.example.org
		prefetch 5 2m 20%
		serve_stale 2h verify 100ms 20s 3s
		serve_stale_policy prefer_positive 1m
		bytes 64MiB
		snapshot /tmp/cache 1MiB
	}`)
	if err != nil {
		t.Fatal(err)
	}
	if o.lifetimes.positive != (limits{300, 2}) || o.lifetimes.negative != (limits{7, 0}) || o.lifetimes.failure != 2 ||
		o.prefetch != 5 || o.prefetchGap != 2*time.Minute || o.prefetchPercent != 20 || o.holdAll != 2*time.Hour || o.staleWait != 100*time.Millisecond ||
		o.staleTTL != 20 || o.failureRecheck != 3*time.Second || o.prefer != time.Minute || p.bytes != 64<<20 || p.snapshot != "/tmp/cache" || p.snapshotSize != 1<<20 {
		t.Errorf("%+v %+v", o, p)
	}
	if o.covers("a.example.com.") || !o.covers("a.example.org.") || o.stores(nxdomain, "x.bad.example.org.") || !o.stores(positive, "x.bad.example.org.") {
		t.Error("zones")
	}
	o, _, err = parsed(t, "nodecache {\nserve_stale off\n}")
	if err != nil || o.holdFor(positive, "a.") != 0 {
		t.Error(err)
	}
	o, _, err = parsed(t, "nodecache {\nserve_stale 1h immediate 15s\n}")
	if err != nil || o.staleWait != 0 || o.staleTTL != 15 {
		t.Error(err)
	}
}

// TestParseErrors: every error says which word, and what is allowed.
func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ options, says string }{
		{"sucess 0 30", `unknown option "sucess": there are success, denial`},
		{"keepttl", "keepttl: nodecache has no such option"},
		{"success", "success wants CAPACITY [TTL] [MINTTL]"},
		{"success many", `"many" is no capacity: write 0`},
		{"success 0 0", "success TTL 0: use a number of seconds from 1 to 604800"},
		{"success 0 30 31", "success: MINTTL 31 is more than the TTL 30"},
		{"denial 0 x", "denial TTL x: use a number of seconds"},
		{"servfail 6m", "servfail 6m: use a duration from 0s to 5m0s"},
		{"servfail", "servfail wants one duration"},
		{"servfail 1500ms", "a TTL is in whole seconds: use 1s or 2s"},
		{"serve_stale 1h verify 200ms 2500ms", "a TTL is in whole seconds: use 2s or 3s"},
		{"disable", "disable wants success or denial"},
		{"disable all", `disable "all": there are success and denial`},
		{"disable denial a..b", `disable: "a..b" is no zone`},
		{"prefetch 256", "prefetch 256: use a number from 0 (none) to 255"},
		{"prefetch 2 1m 5%", `"5%" is no percentage from 10% to 90%`},
		{"serve_stale 8d", "serve_stale 8d: use a duration from 0s to 168h0m0s"},
		{"serve_stale 1h later", `serve_stale "later": there are verify and immediate`},
		{"serve_stale 1h verify 20s", "serve_stale verify 20s: use a duration from 0s to 10s"},
		{"serve_stale 1h verify 1s 1s 1s 1s", `"1s" is too much`},
		{"serve_stale_policy newest", "serve_stale_policy wants prefer_positive"},
		{"bytes 5", "bytes 5: use a size from 1MiB to 64GiB, as 64MiB"},
		{"bytes 2MiB\nbytes 3MiB", "bytes is given twice in one block"},
		{"success 0 30\ndenial 0 5\nsuccess 0 60", "success is given twice in one block: keep one"},
		{"serve_stale off\nserve_stale_policy prefer_positive", "contradict each other"},
		{"serve_stale_policy prefer_positive 1m\nserve_stale 0s", "contradict each other"},
		{"snapshot", "snapshot wants a file"},
		{"snapshot /a 1B", "snapshot 1B: use a size"},
	} {
		_, _, err := parsed(t, "nodecache {\n"+c.options+"\n}")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q", c.options, err, c.says)
		}
	}
	// Between two server blocks, which share one store.
	for options, says := range map[string]string{
		"bytes 3MiB":       "bytes is 2MiB in one place and 3MiB in another",
		"snapshot /b":      "snapshot is /a of at most 16MiB in one place and /b of at most 16MiB in another",
		"snapshot /a 1MiB": "snapshot is /a of at most 16MiB in one place and /a of at most 1MiB in another",
	} {
		p := &processOptions{}
		for i, block := range []string{"bytes 2MiB\nsnapshot /a", options} {
			c := caddy.NewTestController("dns", "nodecache {\n"+block+"\n}")
			c.ServerBlockKeys = []string{"."}
			_, err := parse(c, p)
			if i == 0 && err != nil || i == 1 && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("%q in the second block: %v, want %q", options, err, says)
			}
		}
	}
	for line, says := range map[string]string{
		"nodecache 0":              "TTL 0: use a number of seconds from 1",
		"nodecache 30s":            "30s: a TTL is a number of seconds, without a unit",
		"nodecache example.org 30": "30: a TTL is a number of seconds, without a unit, and stands first",
		"nodecache 30 a..b":        `"a..b" is no zone`,
	} {
		if _, _, err := parsed(t, line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", line, err, says)
		}
	}
	if _, _, err := parsed(t, "nodecache\nnodecache"); err == nil {
		t.Error("twice in a block")
	}
}
