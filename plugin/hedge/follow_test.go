package hedge

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/kube/kubetest"
	"firebreakdns.io/firebreak/plugin/hedge/late"
	"firebreakdns.io/firebreak/test/upstream"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin/test"

	"github.com/miekg/dns"
)

// at starts an upstream on another address of the loopback, at the port of an
// upstream that runs.
func at(t *testing.T, ip string, like *upstream.Server, script string) *upstream.Server {
	t.Helper()
	_, port, _ := net.SplitHostPort(like.Addr())
	return upstream.RunWith(t, upstream.Options{Listen: net.JoinHostPort(ip, port), Script: script})
}

func port(s *upstream.Server) string { _, p, _ := net.SplitHostPort(s.Addr()); return p }

// TestHostFollowed: a host's name is followed when its address changes, and
// nothing fails meanwhile.
func TestHostFollowed(t *testing.T) {
	one := upstream.Run(t, "")
	two := at(t, "127.0.0.2", one, "")
	resolver := upstream.Run(t, "*/A answer 127.0.0.1 ttl 0\n*/AAAA nodata")
	s := serve(t, fmt.Sprintf("hedge . dns.test:%s {\nresolver %s\n}", port(one), resolver.Addr()))
	within(t, 2*time.Second, "the name is resolved", func() bool { return slices.Equal(groupOf(t).view.Keys(), []string{one.Addr()}) })
	s.load(10, time.Millisecond, fresh).noneFailed(t)
	resolver.Set("*/A answer 127.0.0.2 ttl 3600\n*/AAAA nodata")
	done := make(chan struct{})
	go func() {
		defer close(done)
		within(t, 8*time.Second, "the new address is asked", func() bool { return slices.Equal(groupOf(t).view.Keys(), []string{two.Addr()}) })
	}()
	for asking := true; asking; {
		select {
		case <-done:
			asking = false
		default:
			s.load(20, 5*time.Millisecond, fresh).noneFailed(t)
		}
	}
	one.Reset()
	s.load(10, time.Millisecond, fresh).noneFailed(t)
	if n := clientsAsked(one); n != 0 {
		t.Errorf("the old address was asked %d times", n)
	}
}

// TestServiceFollowed: a Service's endpoints are followed; when the API server is
// away at the start, the snapshot's are asked, or else the fallback.
func TestServiceFollowed(t *testing.T) {
	one := upstream.Run(t, "")
	two, clusterIP := at(t, "127.0.0.2", one, ""), at(t, "127.0.0.9", one, "")
	number := one.Addr()[len("127.0.0.1:"):]
	var n int
	fmt.Sscan(number, &n)
	api := &kubetest.API{}
	api.Away(true)
	web := httptest.NewServer(api)
	defer web.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(config, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"`+web.URL+
		`"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}],"current-context":"c"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	hedge := fmt.Sprintf("hedge . kubernetes kube-dns.kube-system {\nkubeconfig %s\nfallback %s\nsnapshot %s/endpoints.json\nzone z1\n}", config, clusterIP.Addr(), dir)
	keys := func(want ...string) func() bool {
		return func() bool { return slices.Equal(groupOf(t).view.Keys(), want) }
	}
	first := serve(t, hedge)
	within(t, time.Second, "the fallback is asked", keys(clusterIP.Addr()))
	first.load(5, time.Millisecond, fresh).noneFailed(t)
	api.Put("s1", "127.0.0.1", n)
	api.Away(false)
	within(t, 5*time.Second, "the endpoint is asked", keys(one.Addr()))
	first.load(5, time.Millisecond, fresh).noneFailed(t)
	api.Put("s2", "127.0.0.2", n)
	within(t, 5*time.Second, "both are asked", keys(one.Addr(), two.Addr()))
	api.Put("s1", "", n)
	within(t, 5*time.Second, "only the other is asked", keys(two.Addr()))
	api.Put("s2", "", n)
	time.Sleep(200 * time.Millisecond)
	if !keys(two.Addr())() { // the last ones known stay
		t.Errorf("without endpoints, %v are asked", groupOf(t).view.Keys())
	}
	first.reload(t, hedge)
	if !keys(two.Addr())() {
		t.Errorf("right after a reload, %v are asked", groupOf(t).view.Keys())
	}
	api.Away(true)
	web.CloseClientConnections()
	first.stop(t)
	second := serve(t, hedge)
	within(t, time.Second, "the snapshot's is asked", keys(two.Addr()))
	second.load(5, time.Millisecond, fresh).noneFailed(t)
	first.inst = second.inst // both clean up; the second time it is nothing
}

// TestResolvConfOurselves: a resolv.conf that names this server is told from its
// others.
func TestResolvConfOurselves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path, []byte("nameserver 127.0.0.53\nnameserver 127.0.0.1\nnameserver 10.99.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := caddy.NewTestController("dns", "hedge . "+path)
	all, err := parseAll(c)
	if err != nil {
		t.Fatal(err)
	}
	o := all[0]
	o.listeners = []listener{{hosts: []string{""}, port: "53"}} // everywhere: the loopback is ours
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	p := newProcess()
	g := newGroup(o)
	g.start(p, p.core("test"))
	defer g.stop()
	within(t, time.Second, "the other one is asked", func() bool { return slices.Equal(g.view.Keys(), []string{"10.99.0.1:53"}) })
}

// TestReload: what was learnt outlives a reload, and none is lost while it is
// reloaded again and again.
func TestReload(t *testing.T) {
	ups, addrs := upstreams(t, 2)
	ups[0].Set("* drop")
	s := serve(t, "hedge ."+addrs)
	s.load(50, 4*time.Millisecond, fresh).noneFailed(t)
	within(t, 2*time.Second, "ejected", func() bool { return ejected(t, ups[0].Addr()) })
	s.reload(t, "hedge ."+addrs+" {\nmax_age 2m\n}")
	if !ejected(t, ups[0].Addr()) {
		t.Error("a reload forgot it")
	}
	ups[0].Set("")
	var wg sync.WaitGroup
	wg.Go(func() { s.load(800, 2*time.Millisecond, fresh).noneFailed(t) })
	for i := range 4 {
		time.Sleep(300 * time.Millisecond)
		s.reload(t, fmt.Sprintf("hedge .%s {\nmax_concurrent %d\n}", addrs, 1000+i))
	}
	wg.Wait()
	if _, err := s.inst.Restart(input(s.corefile("hedge . 10.0.0.1 {\nfly\n}"))); err == nil {
		t.Error("a Corefile with a mistake was taken")
	}
	s.load(20, time.Millisecond, fresh).noneFailed(t)
	for _, h := range groupOf(t).view.Health() {
		for _, l := range h.Links {
			if l.InFlight != 0 {
				t.Errorf("%s over %s: %d in flight for ever", h.Key, l.Transport, l.InFlight)
			}
		}
	}
}

// TestChurn: reloads, misbehaviour and outages under load, for the race detector.
func TestChurn(t *testing.T) {
	ups, addrs := upstreams(t, 3)
	s := serve(t, "hedge ."+addrs)
	s.load(30, time.Millisecond, fresh)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			ups[i%2].Set([]string{"* drop", "* servfail", "*@udp truncate", "", "* loss 30%", "* wrongid", "* close", "* garbage"}[i%8])
			_ = state.upstreams()
			_ = outages.now()
		}
	})
	wg.Go(func() {
		for i := range 5 {
			time.Sleep(300 * time.Millisecond)
			s.reload(t, fmt.Sprintf("hedge .%s {\nmax_concurrent %d\n}", addrs, 1000+i))
		}
		close(stop)
	})
	c := s.load(1000, 2*time.Millisecond, fresh)
	wg.Wait()
	// With two of three misbehaving in turn the budget may run out, and then a
	// failure is told; a wrong answer never is.
	for _, f := range c.failed {
		if strings.Contains(f, "wrong") {
			t.Error(f)
		}
	}
	t.Logf("%d of %d failed", len(c.failed), len(c.took))
}

// TestLate: an answer that comes after the client's deadline is for the cache.
func TestLate(t *testing.T) {
	u := upstream.Run(t, "* delay 400ms")
	serve(t, "hedge . "+u.Addr()+" {\ndeadline 100ms\n}")
	got := make(chan *dns.Msg, 1)
	ctx := late.With(context.Background(), func(m *dns.Msg) { got <- m })
	w := &writer{}
	q := new(dns.Msg).SetQuestion("LATE.test.", dns.TypeA)
	start := time.Now()
	if code, err := (&Hedge{groups: []*group{groupOf(t)}}).ServeDNS(ctx, w, q); code != 0 || err == nil {
		t.Error(code, err)
	}
	if took := time.Since(start); took > 300*time.Millisecond {
		t.Errorf("the client was told after %s", took)
	}
	if w.Msg.Rcode != dns.RcodeServerFailure || w.Msg.IsEdns0() != nil {
		t.Errorf("the client was told %v", w.Msg)
	}
	select {
	case m := <-got:
		if bad := good(m, nil); bad != "" || m.Id != q.Id || m.Question[0].Name != "LATE.test." {
			t.Errorf("late: %v", m)
		}
	case <-time.After(2 * time.Second):
		t.Error("no late answer")
	}
}

// writer keeps what is written.
type writer struct {
	test.ResponseWriter
	Msg *dns.Msg
}

func (w *writer) WriteMsg(m *dns.Msg) error { w.Msg = m; return nil }

// TestHandedOn: what is handed on of a client's query, and what is not.
func TestHandedOn(t *testing.T) {
	got := make(chan *dns.Msg, 8)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	up := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if r.Question[0].Qtype == dns.TypeA {
			got <- r
		}
		m := new(dns.Msg).SetReply(r)
		if r.IsEdns0() != nil {
			m.SetEdns0(4096, true)
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}, &dns.EDNS0_EDE{InfoCode: 3}}
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = up.ActivateAndServe() }()
	defer up.Shutdown()
	s := serve(t, "hedge . "+pc.LocalAddr().String())
	q := new(dns.Msg).SetQuestion("MiXeD.test.", dns.TypeA)
	q.CheckingDisabled = true
	if m, _, err := s.exchange(q, "udp"); err != nil || m.Question[0].Name != "MiXeD.test." || m.IsEdns0() != nil {
		t.Errorf("plain: %v %v", m, err)
	}
	if r := <-got; r.IsEdns0() != nil || !r.CheckingDisabled || !r.RecursionDesired || r.Id == q.Id || r.Question[0].Name != "MiXeD.test." {
		t.Errorf("plain: asked %v", r)
	}
	q.SetEdns0(4096, true)
	q.IsEdns0().Option = []dns.EDNS0{
		&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
		&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(192, 0, 2, 0)},
	}
	m, _, err := s.exchange(q, "udp")
	if err != nil || ede(m) != 3 || len(m.IsEdns0().Option) != 1 {
		t.Errorf("EDNS: %v %v", m, err)
	}
	r := <-got
	opt := r.IsEdns0()
	if opt == nil || !opt.Do() || opt.UDPSize() != 1232 || len(opt.Option) != 1 || opt.Option[0].Option() != dns.EDNS0SUBNET {
		t.Errorf("EDNS: asked %v", r)
	}
	// What cannot be asked.
	notify := new(dns.Msg).SetNotify("a.test.")
	xfr := new(dns.Msg).SetAxfr("a.test.")
	for _, m := range []*dns.Msg{notify, xfr} {
		if code, err := (&Hedge{groups: []*group{groupOf(t)}}).ServeDNS(context.Background(), &writer{}, m); code != dns.RcodeNotImplemented || err != nil {
			t.Errorf("%v: %d %v", m.MsgHdr, code, err)
		}
	}
}

// TestLoop: two servers that ask each other are found out.
func TestLoop(t *testing.T) {
	honest := upstream.Run(t, "")
	var a, b string
	var inst *caddy.Instance
	var err error
	for range 5 { // a port that was free may be taken by now
		a, b = freePort(t), freePort(t)
		if inst, err = caddy.Start(input(fmt.Sprintf(".:%s {\nbind 127.0.0.1\nhedge . 127.0.0.1:%s\n}\n.:%s {\nbind 127.0.0.1\nhedge . 127.0.0.1:%s %s\n}\n",
			a, b, b, a, honest.Addr()))); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &server{inst: inst, addr: "127.0.0.1:" + a}
	defer s.stop(t)
	within(t, 5*time.Second, "the loop is found", func() bool {
		for _, u := range state.upstreams() {
			if u.Address == "127.0.0.1:"+a && u.Loop && !u.Healthy {
				return true
			}
		}
		return false
	})
	// What is left of the loop is a chain, which works.
	for range 5 {
		if m, _, err := (&server{addr: "127.0.0.1:" + b}).ask(fresh(0)); good(m, err) != "" {
			t.Error(good(m, err))
		}
	}
}

// TestTLS: over TLS, by the certificate's name.
func TestTLS(t *testing.T) {
	conf, ca := certificate(t, "dns.test")
	u := upstream.RunWith(t, upstream.Options{TLS: conf})
	s := serve(t, fmt.Sprintf("hedge . tls://%s {\ntls %s\ntls_servername dns.test\n}", u.Addr(), ca))
	s.load(30, 2*time.Millisecond, fresh).noneFailed(t)
	if c := u.Count(); c.Over["tls"] < 30 || c.Connections > 32 {
		t.Errorf("%+v", c)
	}
	s.reload(t, fmt.Sprintf("hedge . tls://%s {\ntls %s\ntls_servername other.test\n}", u.Addr(), ca))
	if m, _, err := s.ask(fresh(0)); err != nil || m.Rcode != dns.RcodeServerFailure || ede(m) != int(dns.ExtendedErrorCodeNetworkError) {
		t.Errorf("by another name: %v %v", m, err)
	}
}

// TestExcept: what is excepted goes to the next plugin.
func TestExcept(t *testing.T) {
	u := upstream.Run(t, "")
	s := serve(t, "hedge . "+u.Addr()+" {\nexcept local.test\n}\nwhoami")
	if m, _, err := s.ask("a.local.test"); err != nil || len(m.Answer) != 0 || len(m.Extra) < 2 {
		t.Errorf("excepted: %v %v", m, err)
	}
	if m, _, err := s.ask("a.other.test"); good(m, err) != "" {
		t.Error(good(m, err))
	}
}
