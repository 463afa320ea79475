package endpoints

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/upstream"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func show(list []Endpoint) string {
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("%s/%d", e.Addr, e.Tier))
	}
	return strings.Join(out, " ")
}

// follow runs a source; next is what it says next.
func follow(t *testing.T, s Source) (next func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	said := make(chan string, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx, func(list []Endpoint, err error) {
			if err != nil {
				said <- "error: " + err.Error()
				return
			}
			said <- show(list)
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() string {
		select {
		case s := <-said:
			return s
		case <-time.After(3 * time.Second):
			return "nothing"
		}
	}
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestResolvConf: the file is followed, also when another takes its place, and
// when it is broken what was known stays.
func TestResolvConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	next := follow(t, &ResolvConf{Path: path, Every: 5 * time.Millisecond})
	want(t, next(), "no such file")
	write("search a b\nnameserver 10.0.0.2\nnameserver 10.0.0.1\nnameserver ::1\n")
	want(t, next(), "10.0.0.1:53/0 10.0.0.2:53/0 [::1]:53/0")
	write("# again\nnameserver 10.0.0.1\n nameserver 10.0.0.2\nnameserver ::1")
	write("nameserver 10.0.0.3\n")
	want(t, next(), "10.0.0.3:53/0")
	write("nameserver nobody\n")
	want(t, next(), `line 1: "nobody" is no address`)
	write("search a\n")
	want(t, next(), "names no nameserver")
	write(strings.Repeat("#", maxResolvConf+1))
	want(t, next(), "that is no resolv.conf")
	write("nameserver 10.0.0.3\n")
	want(t, next(), "10.0.0.3:53/0")
}

// TestHost: a name is looked up anew at its TTL.
func TestHost(t *testing.T) {
	s := upstream.Run(t, "*/A answer 10.0.0.1 ttl 0\n*/AAAA answer 2001:db8::1 ttl 0")
	h := &Host{Name: "dns.test.", Port: 5353, Resolvers: []string{s.Addr()}, Least: 10 * time.Millisecond, Retry: 10 * time.Millisecond}
	next := follow(t, h)
	want(t, next(), "10.0.0.1:5353/0 [2001:db8::1]:5353/0")
	s.Set("*/A answer 10.0.0.2 ttl 0\n*/AAAA nodata")
	for got := next(); !strings.HasPrefix(got, "10.0.0.2"); got = next() { // between the two types
		if got == "nothing" {
			t.Fatal("the change was not seen")
		}
	}
	s.Set("* nxdomain")
	want(t, next(), "dns.test. does not exist")
	s.Set("* servfail")
	want(t, next(), "answers SERVFAIL")
	s.Set("* nodata")
	want(t, next(), "dns.test. has no address")
	s.Set("*/A truncate ttl 0\n*/AAAA nodata")
	want(t, next(), "192.0.2.1:5353/0")
	s.Set("*/A answer 10.0.0.9 ttl 3600")
	want(t, next(), "10.0.0.9:5353/0")
}

// TestOf: which endpoints slices name.
func TestOf(t *testing.T) {
	dns := []Port{{"dns", 53, true}, {"dns-tcp", 53, false}, {"metrics", 9153, false}}
	server := func(a string, ready bool, hints ...string) Server {
		s := Server{Addresses: []string{a}, Ready: ready, Serving: ready}
		for _, h := range hints {
			switch h {
			case "ending":
				s.Ready, s.Terminating = false, true
				continue
			case "starting":
				s.Starting = true
				continue
			}
			if n, ok := strings.CutPrefix(h, "node:"); ok {
				s.ForNodes = append(s.ForNodes, n)
			} else {
				s.ForZones = append(s.ForZones, h)
			}
		}
		return s
	}
	for _, test := range []struct {
		name, port, want string
		slices           []Slice
	}{
		{"ready ones", "dns", "10.0.0.1:53/2 10.0.0.2:53/2", []Slice{{dns, []Server{server("10.0.0.1", true), server("10.0.0.2", true), server("10.0.0.3", false)}}}},
		{"half ready", "dns", "10.0.0.1:53/2", []Slice{{dns, []Server{server("10.0.0.1", true), server("10.0.0.2", false)}}}},
		{"under half ready: all", "dns", "10.0.0.1:53/2 10.0.0.2:53/2 10.0.0.3:53/2", []Slice{{dns, []Server{server("10.0.0.1", true), server("10.0.0.2", false), server("10.0.0.3", false)}}}},
		{"none ready: all", "dns", "10.0.0.1:53/2 10.0.0.2:53/2", []Slice{{dns, []Server{server("10.0.0.1", false), server("10.0.0.2", false)}}}},
		{"those that end are not counted", "dns", "10.0.0.1:53/2", []Slice{{dns, []Server{server("10.0.0.1", true), server("10.0.0.2", true, "ending"), server("10.0.0.3", true, "ending"), server("10.0.0.4", false, "ending")}}}},
		{"nor asked while the others are ready", "dns", "10.0.0.1:53/2 10.0.0.2:53/2", []Slice{{dns, []Server{server("10.0.0.1", true), server("10.0.0.2", true), server("10.0.0.3", true, "ending"), server("10.0.0.4", false)}}}},
		{"all end: those that still serve", "dns", "10.0.0.1:53/2", []Slice{{dns, []Server{server("10.0.0.1", true, "ending"), server("10.0.0.2", false, "ending")}}}},
		{"the others are not ready: as long as they serve", "dns", "10.0.0.1:53/2 10.0.0.3:53/2", []Slice{{dns, []Server{server("10.0.0.1", true, "ending"), server("10.0.0.2", false, "ending"), server("10.0.0.3", false)}}}},
		{"all have ended", "dns", "it has no endpoints but those that have ended", []Slice{{dns, []Server{server("10.0.0.1", false, "ending")}}}},
		{"those that start are not counted", "dns", "10.0.0.1:53/2", []Slice{{dns, []Server{server("10.0.0.1", true), server("10.0.0.2", false, "starting"), server("10.0.0.3", false, "starting"), server("10.0.0.4", false, "starting")}}}},
		{"those that end serve until others have started", "dns", "10.0.0.1:53/2", []Slice{{dns, []Server{server("10.0.0.1", true, "ending"), server("10.0.0.2", false, "starting")}}}},
		{"all start: there is nobody else", "dns", "10.0.0.2:53/2 10.0.0.3:53/2", []Slice{{dns, []Server{server("10.0.0.1", false, "ending"), server("10.0.0.2", false, "starting"), server("10.0.0.3", false, "starting")}}}},
		{"hints, one without ends", "dns", "10.0.0.1:53/1 10.0.0.2:53/2", []Slice{{dns, []Server{server("10.0.0.1", true, "z1"), server("10.0.0.2", true, "z2"), server("10.0.0.3", true, "ending")}}}},
		{"several slices, two families", "dns", "10.0.0.1:53/2 [2001:db8::1]:53/2", []Slice{{dns, []Server{server("10.0.0.1", true)}}, {dns, []Server{server("2001:db8::1", true)}}}},
		{"the same twice", "dns", "10.0.0.1:53/2", []Slice{{dns, []Server{server("10.0.0.1", true)}}, {dns, []Server{server("10.0.0.1", true)}}}},
		{"hints", "dns", "10.0.0.1:53/0 10.0.0.2:53/1 10.0.0.3:53/2", []Slice{{dns, []Server{server("10.0.0.1", true, "node:n1", "z1"), server("10.0.0.2", true, "z1"), server("10.0.0.3", true, "z2")}}}},
		{"one without hints: none", "dns", "10.0.0.1:53/2 10.0.0.2:53/2", []Slice{{dns, []Server{server("10.0.0.1", true, "z1"), server("10.0.0.2", true)}}}},
		{"port by number", "5353", "10.0.0.1:5353/2", []Slice{{[]Port{{"other", 54, true}, {"dns", 5353, true}}, []Server{server("10.0.0.1", true)}}}},
		{"the service's own port", "53", "10.0.0.1:5353/2", []Slice{{[]Port{{"dns", 5353, true}}, []Server{server("10.0.0.1", true)}}}},
		{"no such port", "doh", `no endpoint has a port "doh"`, []Slice{{dns, []Server{server("10.0.0.1", true)}}}},
		{"TCP alone", "metrics", `no endpoint has a port "metrics"`, []Slice{{dns, []Server{server("10.0.0.1", true)}}}},
		{"no slices", "dns", "it has no endpoints", nil},
		{"no endpoints, as Kubernetes says it", "dns", "it has no endpoints", []Slice{{}}},
		{"no endpoints", "dns", "it has no endpoints", []Slice{{Ports: dns}}},
		{"names", "dns", "it has no endpoints", []Slice{{dns, []Server{server("dns.example.org", true)}}}},
	} {
		list, err := Of(test.slices, test.port, "n1", "z1")
		got := show(list)
		if err != nil {
			got = err.Error()
		}
		if got != test.want && !(err != nil && strings.Contains(got, test.want)) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

type fakeWatcher struct {
	tell chan func(func([]Slice, error))
	zone func() (string, error)
}

func (w *fakeWatcher) Watch(ctx context.Context, _, _ string, changed func([]Slice, error)) {
	for {
		select {
		case f := <-w.tell:
			f(changed)
		case <-ctx.Done():
			return
		}
	}
}

func (w *fakeWatcher) Zone(context.Context, string) (string, error) {
	if w.zone == nil {
		return "z1", nil
	}
	return w.zone()
}

// TestService: a Service's endpoints are followed, by the zone that Kubernetes
// says the node is in; when they cannot be read, that is said once.
func TestService(t *testing.T) {
	w := &fakeWatcher{tell: make(chan func(func([]Slice, error)))}
	next := follow(t, &Service{Namespace: "kube-system", Name: "kube-dns", Node: "n1", Watcher: w})
	slices := []Slice{{[]Port{{"dns", 53, true}}, []Server{{Addresses: []string{"10.0.0.1"}, Ready: true, ForZones: []string{"z1"}}}}}
	say := func(s []Slice, err error) { w.tell <- func(f func([]Slice, error)) { f(s, err) } }
	say(slices, nil)
	want(t, next(), "10.0.0.1:53/2") // a start does not wait for the zone
	want(t, next(), "10.0.0.1:53/1")
	say(slices, nil)
	say(nil, errors.New("away"))
	want(t, next(), "service kube-dns.kube-system: away")
	say(nil, errors.New("away"))
	say(nil, nil)
	want(t, next(), "it has no endpoints")
	say(slices, nil)
	want(t, next(), "10.0.0.1:53/1")
}

// TestStarting: one that has come since is not asked before it is ready, and counts
// from then on, also when it is ready no longer; what was there before us counts.
func TestStarting(t *testing.T) {
	w := &fakeWatcher{tell: make(chan func(func([]Slice, error)))}
	next := follow(t, &Service{Namespace: "kube-system", Name: "kube-dns", Watcher: w})
	say := func(ready ...bool) {
		s := Slice{Ports: []Port{{"dns", 53, true}}}
		for i, r := range ready {
			s.Servers = append(s.Servers, Server{Addresses: []string{fmt.Sprintf("10.0.0.%d", i+1)}, Ready: r, Serving: r})
		}
		w.tell <- func(f func([]Slice, error)) { f([]Slice{s}, nil) }
	}
	say(false, true, false)
	want(t, next(), "10.0.0.1:53/2 10.0.0.2:53/2 10.0.0.3:53/2")
	say(false, true)
	want(t, next(), "10.0.0.2:53/2")
	say(false, true, false, false, false)
	say(true, true, false, false, true)
	want(t, next(), "10.0.0.1:53/2 10.0.0.2:53/2 10.0.0.5:53/2")
	say(true, false, false, false, false) // one of three that count: the same three
	say(true, false, false, false)
	want(t, next(), "10.0.0.1:53/2")
}

// TestZone: the node's zone is asked for once it matters, and again until it is
// known; that it is not known is said.
func TestZone(t *testing.T) {
	var mu sync.Mutex
	asked, answer := 0, func() (string, error) { return "", errors.New("forbidden") }
	w := &fakeWatcher{tell: make(chan func(func([]Slice, error))), zone: func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return answer()
	}}
	next := follow(t, &Service{Namespace: "kube-system", Name: "kube-dns", Node: "n1", Watcher: w, again: 10 * time.Millisecond, later: 10 * time.Millisecond})
	say := func(zones ...string) {
		s := []Slice{{[]Port{{"dns", 53, true}}, []Server{{Addresses: []string{"10.0.0.1"}, Ready: true, ForZones: zones}}}}
		w.tell <- func(f func([]Slice, error)) { f(s, nil) }
	}
	say()
	want(t, next(), "10.0.0.1:53/2")
	mu.Lock()
	if asked != 0 {
		t.Error("the zone was asked for, though no hint is for a zone")
	}
	mu.Unlock()
	say("z1")
	want(t, next(), "the zone of node n1 is not known, so no endpoint is nearer than others: forbidden")
	eventually := func(what string, is func() bool) {
		t.Helper()
		for range 300 {
			mu.Lock()
			done := is()
			mu.Unlock()
			if done {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Fatal("never: " + what)
	}
	eventually("asked again", func() bool { return asked > 3 })
	mu.Lock()
	asked, answer = 0, func() (string, error) { return "", nil } // its label comes later
	mu.Unlock()
	eventually("asked again for a node without a zone", func() bool { return asked > 3 })
	mu.Lock()
	answer = func() (string, error) { return "z1", nil }
	mu.Unlock()
	want(t, next(), "10.0.0.1:53/1")
	mu.Lock()
	asked = 0
	mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	if asked != 0 {
		t.Error("the zone is asked for, though it is known")
	}
}

// TestSnapshot: what is kept is read back, and what cannot be used is set aside.
func TestSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.json")
	s, err := OpenSnapshot(path)
	if err != nil || s.Last("a") != nil {
		t.Fatal(s, err)
	}
	list, _ := Of([]Slice{{[]Port{{"dns", 53, true}}, []Server{{Addresses: []string{"10.0.0.1", "2001:db8::1"}, Ready: true}}}}, "dns", "", "")
	if err := s.Keep("a", list); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep("b", list[:1]); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenSnapshot(path); err != nil || show(s.Last("a")) != show(list) || show(s.Last("b")) != show(list[:1]) {
		t.Fatal(s, err)
	}
	for text, why := range map[string]string{
		"garbage":       "invalid character",
		"":              "unexpected end",
		`{"version":2}`: "version 2",
		`{"version":1,"sources":{"a":[{"address":"","tier":0}]}}`: "an address that is none",
		strings.Repeat(" ", maxSnapshot+1):                        "more than the",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSnapshot(path)
		if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "set aside") || s.Last("a") != nil {
			t.Errorf("%.20q: %v", text, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%.20q is still there", text)
		}
	}
	if err := s.Keep("a", list); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(path + ".[0-9]*"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
