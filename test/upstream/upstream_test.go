package upstream_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/test/upstream"

	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(t *testing.T, s *upstream.Server, over, name string, qtype uint16) (*dns.Msg, error) {
	t.Helper()
	c := &dns.Client{Net: over, Timeout: 200 * time.Millisecond}
	m := new(dns.Msg).SetQuestion(name, qtype)
	r, _, err := c.Exchange(m, s.Addr())
	return r, err
}

// TestScript: every word does what it says.
func TestScript(t *testing.T) {
	for _, test := range []struct {
		script, over, name string
		qtype              uint16
		want               string // part of the answer, or of the error
	}{
		{"", "udp", "a.test.", dns.TypeA, "192.0.2.1"},
		{"", "tcp", "a.test.", dns.TypeSOA, "hostmaster.test."},
		{"* answer 192.0.2.9 2001:db8::1", "udp", "a.test.", dns.TypeAAAA, "2001:db8::1"},
		{"* answer 192.0.2.9 ttl 7", "udp", "a.test.", dns.TypeA, "7\tIN\tA\t192.0.2.9"},
		{"* rr a.test. 5 IN TXT hello", "udp", "a.test.", dns.TypeTXT, "hello"},
		{"other.test servfail\n* refused", "udp", "a.test.", dns.TypeA, "REFUSED"},
		{"test servfail", "udp", "a.test.", dns.TypeA, "SERVFAIL"},
		{"=test servfail", "udp", "a.test.", dns.TypeA, "192.0.2.1"},
		{"*/AAAA servfail", "udp", "a.test.", dns.TypeA, "192.0.2.1"},
		{"*@udp servfail", "tcp", "a.test.", dns.TypeA, "192.0.2.1"},
		{"* nxdomain", "udp", "a.test.", dns.TypeA, "SOA"},
		{"* nodata", "udp", "a.test.", dns.TypeA, "NOERROR"},
		{"* truncate", "udp", "a.test.", dns.TypeA, "qr tc"},
		{"* truncate", "tcp", "a.test.", dns.TypeA, "192.0.2.1"},
		{"* records 100", "tcp", "a.test.", dns.TypeA, "198.18.0.99"},
		{"* records 100", "udp", "a.test.", dns.TypeA, "qr tc"},
		{"* drop", "udp", "a.test.", dns.TypeA, "timeout"},
		{"* drop", "tcp", "a.test.", dns.TypeA, "timeout"},
		{"* close", "tcp", "a.test.", dns.TypeA, "EOF"},
		{"* wrongid", "tcp", "a.test.", dns.TypeA, "id mismatch"},
		{"* wrongname", "tcp", "a.test.", dns.TypeA, "wrong.a.test."},
		{"* noquestion", "tcp", "a.test.", dns.TypeA, "QUERY: 0"},
		{"* elsewhere", "udp", "a.test.", dns.TypeA, "timeout"},
		{"* garbage", "udp", "a.test.", dns.TypeA, "dns:"},
		{"* loss 100%", "udp", "a.test.", dns.TypeA, "timeout"},
		{"* delay 300ms", "udp", "a.test.", dns.TypeA, "timeout"},
		{"* spoof", "udp", "a.test.", dns.TypeA, "192.0.2.1"},
	} {
		s := upstream.Run(t, test.script)
		r, err := ask(t, s, test.over, test.name, test.qtype)
		got := ""
		if r != nil {
			got = r.String()
		}
		if err != nil {
			got += err.Error()
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%q over %s: want %q in\n%s", test.script, test.over, test.want, got)
		}
	}
}

// TestScriptErrors: a mistake is named.
func TestScriptErrors(t *testing.T) {
	for script, want := range map[string]string{
		"* fly":         "line 1: fly: no such word",
		"\n*@ip drop":   `line 2: "ip" is no transport`,
		"*/B drop":      `"B" is no type`,
		"* every 0":     "0 is below 1",
		"* answer":      "wants addresses",
		"* delay never": "invalid duration",
	} {
		if _, err := upstream.Parse(script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", script, err, want)
		}
	}
}

// TestChange: answers change, every Nth is another, and all is counted.
func TestChange(t *testing.T) {
	s := upstream.Run(t, "* every 3 servfail\n* change")
	var got []string
	for range 6 {
		r, err := ask(t, s, "udp", "a.test.", dns.TypeA)
		if err != nil {
			t.Fatal(err)
		}
		if r.Rcode != 0 {
			got = append(got, dns.RcodeToString[r.Rcode])
			continue
		}
		got = append(got, r.Answer[0].(*dns.A).A.String())
	}
	if want := "192.0.2.1 192.0.2.2 SERVFAIL 192.0.2.4 192.0.2.5 SERVFAIL"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if c := s.Count(); c.Queries != 6 || c.Over["udp"] != 6 || len(s.Queries()) != 6 {
		t.Errorf("counted %+v", c)
	}
}

// TestDown: a server that is down is refused by the system, and comes back at the
// same address.
func TestDown(t *testing.T) {
	s := upstream.Run(t, "")
	s.Down()
	if _, err := ask(t, s, "udp", "a.test.", dns.TypeA); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("down: %v", err)
	}
	if c, err := net.Dial("tcp", s.Addr()); err == nil {
		c.Close()
		t.Error("down, and takes connections")
	}
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, s, "tcp", "a.test.", dns.TypeA); err != nil {
		t.Errorf("up again: %v", err)
	}
}

// TestRate: a server serves what it can, and drops what would wait too long.
func TestRate(t *testing.T) {
	s := upstream.Run(t, "* rate 100")
	c, err := net.Dial("udp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, _ := new(dns.Msg).SetQuestion("a.test.", dns.TypeA).Pack()
	for range 300 {
		if _, err := c.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(500 * time.Millisecond)
	if n := s.Count().Answers; n < 35 || n > 55 {
		t.Errorf("%d answers in half a second, want about 50", n)
	}
	time.Sleep(time.Second)
	if n := s.Count().Answers; n < 95 || n > 115 {
		t.Errorf("%d answers of 300, want about 100", n)
	}
}
