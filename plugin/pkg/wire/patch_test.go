package wire

import (
	"testing"

	"github.com/miekg/dns"
)

func TestPut(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*dns.Msg)
		ad, size bool
	}{
		{"plain", nil, false, false},
		{"EDNS", opt(700, false), false, true},
		{"DO", opt(700, true), true, true},
		{"AD", func(m *dns.Msg) { m.AuthenticatedData = true }, true, false},
		{"CD", func(m *dns.Msg) { m.CheckingDisabled = true }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := packed(t, "A.example.", dns.TypeA, c.change)
			buf := make([]byte, MaxAnswer)
			n := copy(buf, b)
			var q Query
			if !q.Parse(buf[:n]) {
				t.Fatal("not parsed")
			}
			options := AppendEDE(nil, dns.ExtendedErrorCodeStaleAnswer, "old")
			a := Answer{Flags: [2]byte{0x84, 0xa0}, Counts: [6]byte{1: 1}, Body: []byte{0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1}}
			want := a.Len(&q, options)
			n = a.Put(buf, &q, q.Size, options)
			m := new(dns.Msg)
			if err := m.Unpack(buf[:n]); err != nil || n != want {
				t.Fatalf("%v, %d of %d bytes: %x", err, n, want, buf[:n])
			}
			if m.Id != 4711 || !m.Response || !m.RecursionDesired || !m.RecursionAvailable || !m.Authoritative || m.Truncated || m.Zero ||
				m.AuthenticatedData != c.ad || m.CheckingDisabled != (c.name == "CD") || m.Answer[0].String() != "A.example.\t9\tIN\tA\t192.0.2.1" {
				t.Error(m)
			}
			if o := m.IsEdns0(); (o != nil) != c.size {
				t.Error(m)
			} else if o != nil && (o.UDPSize() != 700 || o.Do() != (c.name == "DO") || o.Option[0].(*dns.EDNS0_EDE).ExtraText != "old") {
				t.Error(m)
			}
		})
	}
}

func TestPutError(t *testing.T) {
	buf := make([]byte, MaxAnswer)
	n := copy(buf, packed(t, "a.example.", dns.TypeA, opt(1232, false)))
	var q Query
	if !q.Parse(buf[:n]) {
		t.Fatal()
	}
	n = PutError(buf, &q, dns.RcodeServerFailure, 1232, nil)
	m := new(dns.Msg)
	if err := m.Unpack(buf[:n]); err != nil || m.Rcode != dns.RcodeServerFailure || len(m.Question) != 1 || m.IsEdns0() == nil {
		t.Error(err, m)
	}
}
