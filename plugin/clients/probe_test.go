package clients

import (
	"context"
	"encoding/hex"
	"testing"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"

	"github.com/miekg/dns"
)

// A controller's probe counts nowhere and is passed on without its mark. Who
// has another mark, or none, is a client, and what it sent is left as it is.
func TestProbesAreNoClients(t *testing.T) {
	p := newProcess(MinMax)
	var got *dns.Msg
	h := &Clients{process: p, Next: plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		got = r
		m := new(dns.Msg)
		return dns.RcodeSuccess, w.WriteMsg(m.SetReply(r))
	})}
	option := func(data []byte) dns.EDNS0 { return &dns.EDNS0_LOCAL{Code: protocol.ProbeOption, Data: data} }
	other := newMark()
	short := p.mark[:15]
	token := []byte("a drill's token.")
	for _, c := range []struct {
		name    string
		options []dns.EDNS0
		counts  uint64
		left    int // options that the next plugin sees
	}{
		{"no EDNS", nil, 1, 0},
		{"the mark", []dns.EDNS0{option(p.mark[:])}, 0, 0},
		{"the mark beside a drill's token", []dns.EDNS0{option(token), option(p.mark[:])}, 0, 1},
		{"another mark", []dns.EDNS0{option(other[:])}, 1, 1},
		{"a part of it", []dns.EDNS0{option(short)}, 1, 1},
		{"none in it", []dns.EDNS0{option(nil)}, 1, 1},
		{"the mark under another code", []dns.EDNS0{&dns.EDNS0_LOCAL{Code: protocol.ProbeOption + 1, Data: p.mark[:]}}, 1, 1},
	} {
		before := p.Stats(Now())
		m := new(dns.Msg)
		m.SetQuestion("example.org.", dns.TypeA)
		if c.options != nil {
			m.SetEdns0(1232, false)
			m.IsEdns0().Option = c.options
		}
		w := dnstest.NewRecorder(&test.ResponseWriter{})
		if _, err := h.ServeDNS(t.Context(), w, m); err != nil || w.Msg == nil {
			t.Fatalf("%s: not answered: %v", c.name, err)
		}
		after := p.Stats(Now())
		if after.Queries-before.Queries != c.counts || after.Answers-before.Answers != c.counts {
			t.Errorf("%s: %d queries, %d answers, want %d", c.name, after.Queries-before.Queries, after.Answers-before.Answers, c.counts)
		}
		left := 0
		if opt := got.IsEdns0(); opt != nil {
			left = len(opt.Option)
		}
		if left != c.left || c.options != nil && got.IsEdns0() == nil {
			t.Errorf("%s: %d options were passed on, want %d", c.name, left, c.left)
		}
		if opt := m.IsEdns0(); opt != nil && len(opt.Option) != len(c.options) {
			t.Errorf("%s: the query itself was changed", c.name)
		}
	}
	if raw, err := hex.DecodeString(hex.EncodeToString(p.mark[:])); err != nil || len(raw) != protocol.ProbeMarkLength || newMark() == p.mark {
		t.Error("a mark is random, and of its length")
	}
}
