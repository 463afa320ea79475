package wire_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// upstream is a server whose answers are made from the question.
type upstream struct {
	addr  string
	asked atomic.Int64
	mu    sync.Mutex
	delay time.Duration
	down  bool
	rcode int
}

func newUpstream(t testing.TB) *upstream {
	t.Helper()
	u := &upstream{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.addr = l.Addr().String()
	p, err := net.ListenPacket("udp", u.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*dns.Server{{Listener: l, Handler: u}, {PacketConn: p, Handler: u, UDPSize: 4096}} {
		go func() { _ = s.ActivateAndServe() }()
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return u
}

func (u *upstream) set(delay time.Duration, down bool, rcode int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.delay, u.down, u.rcode = delay, down, rcode
}

func (u *upstream) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	u.asked.Add(1)
	u.mu.Lock()
	delay, down, rcode := u.delay, u.down, u.rcode
	u.mu.Unlock()
	time.Sleep(delay)
	if down {
		return
	}
	m := answerTo(r)
	if rcode != 0 {
		m = new(dns.Msg).SetRcode(r, rcode)
	}
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
		size := dns.MinMsgSize
		if o := r.IsEdns0(); o != nil {
			size = int(o.UDPSize())
		}
		m.Truncate(size)
	}
	_ = w.WriteMsg(m)
}

func rr(format string, args ...any) dns.RR {
	r, err := dns.NewRR(fmt.Sprintf(format, args...))
	if err != nil {
		panic(err)
	}
	return r
}

const soa = "example. 300 IN SOA ns.example. admin.example. 1 3600 600 86400 60"

// answerTo makes an answer out of the first label of the question.
func answerTo(r *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	m.RecursionAvailable = true
	m.Compress = true
	if o := r.IsEdns0(); o != nil {
		m.SetEdns0(4096, o.Do())
	}
	q := r.Question[0]
	label, _, _ := strings.Cut(strings.ToLower(q.Name), ".")
	add := func(rrs ...dns.RR) { m.Answer = append(m.Answer, rrs...) }
	n := 1
	_, _ = fmt.Sscanf(label, "many%d", &n)
	switch {
	case strings.HasPrefix(label, "nx"):
		m.Rcode = dns.RcodeNameError
		m.Ns = append(m.Ns, rr(soa))
		return m
	case strings.HasPrefix(label, "servfail"):
		m.Rcode = dns.RcodeServerFailure
		if o := m.IsEdns0(); o != nil {
			o.Option = append(o.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeDNSBogus, ExtraText: "bad signature"})
		}
		return m
	case strings.HasPrefix(label, "refused"):
		m.Rcode = dns.RcodeRefused
		return m
	case strings.HasPrefix(label, "zero"):
		add(rr("%s 0 IN A 192.0.2.1", q.Name))
		return m
	case strings.HasPrefix(label, "cname") && q.Qtype != dns.TypeCNAME:
		add(rr("%s 3000 IN CNAME target.example.", q.Name), rr("target.example. 20 IN A 192.0.2.7"))
		return m
	case strings.HasPrefix(label, "ad"):
		m.AuthenticatedData = true
	case strings.HasPrefix(label, "ede"):
		if o := m.IsEdns0(); o != nil {
			o.Option = append(o.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeForgedAnswer, ExtraText: "policy"})
		}
	}
	switch q.Qtype {
	case dns.TypeA:
		for i := range n {
			add(rr("%s 300 IN A 10.0.%d.%d", q.Name, i/256, i%256))
		}
	case dns.TypeAAAA:
		for i := range n {
			add(rr("%s 300 IN AAAA 2001:db8::%x", q.Name, i+1))
		}
	case dns.TypeTXT:
		for i := range n {
			add(rr("%s 300 IN TXT \"number %d\"", q.Name, i))
		}
	case dns.TypeSRV:
		add(rr("%s 300 IN SRV 1 2 53 a.srv.example.", q.Name), rr("%s 200 IN SRV 2 2 53 b.srv.example.", q.Name))
		m.Extra = append([]dns.RR{rr("a.srv.example. 100 IN A 192.0.2.4")}, m.Extra...)
	case dns.TypeMX:
		add(rr("%s 300 IN MX 10 mail.example.", q.Name))
		m.Ns = append(m.Ns, rr("example. 250 IN NS ns.example."))
	case dns.TypePTR:
		add(rr("%s 300 IN PTR host.example.", q.Name))
	default:
		m.Ns = append(m.Ns, rr(soa))
	}
	return m
}
