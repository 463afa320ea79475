//go:build linux

package nodelocal

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"

	"github.com/miekg/dns"
)

// Its own questions are noted and passed on without their mark; others pass as they
// are.
func TestMark(t *testing.T) {
	var got *dns.Msg
	h := &handler{next: plugin.HandlerFunc(func(_ context.Context, _ dns.ResponseWriter, r *dns.Msg) (int, error) {
		got = r
		return dns.RcodeSuccess, nil
	})}
	serve := func(q *dns.Msg) {
		t.Helper()
		if _, err := h.ServeDNS(context.Background(), dnstest.NewRecorder(&test.ResponseWriter{}), q); err != nil {
			t.Fatal(err)
		}
	}
	plain := new(dns.Msg).SetQuestion("example.org.", dns.TypeA)
	if serve(plain); got != plain {
		t.Error("a query without EDNS was changed")
	}
	mine := plain.Copy()
	arrived, forget := asked.put(mine)
	if arrived() {
		t.Error("it arrived before it was sent")
	}
	theirs := plain.Copy()
	newOwn().put(theirs)
	if serve(theirs); got != theirs || arrived() {
		t.Error("another process's question was taken for our own")
	}
	if serve(mine); !arrived() || len(got.IsEdns0().Option) != 0 || len(mine.IsEdns0().Option) != 1 {
		t.Errorf("arrived %v; passed on with %v, and ours has %v", arrived(), got.IsEdns0().Option, mine.IsEdns0().Option)
	}
	forget()
	serve(mine) // late: nobody waits
}

func TestReadyWithoutAnything(t *testing.T) {
	if (&handler{}).Ready() {
		t.Error("ready before anything was put")
	}
}

func TestSocketTable(t *testing.T) {
	table := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  1: 0A14FEA9:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 0
  2: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 65534        0 1 2 0 0
`
	found, err := socketsIn(strings.NewReader(table), false)
	want := []socket{{netip.MustParseAddrPort("169.254.20.10:53"), 0}, {netip.MustParseAddrPort("0.0.0.0:53"), 65534}}
	if err != nil || len(found) != 2 || found[0] != want[0] || found[1] != want[1] {
		t.Errorf("sockets = %v, %v, want %v", found, err, want)
	}
	streams := `  sl  local_address                         remote_address                        st
  0: 00000000000000000000000001000000:0035 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1
  1: 00000000000000000000000001000000:0035 00000000000000000000000001000000:9999 01 00000000:00000000 00:00000000 00000000  1000        0 1
`
	found, err = socketsIn(strings.NewReader(streams), true)
	if err != nil || len(found) != 1 || found[0] != (socket{netip.MustParseAddrPort("[::1]:53"), 1000}) {
		t.Errorf("sockets = %v, %v, want the one that listens", found, err)
	}
	at := netip.MustParseAddrPort("169.254.20.10:53")
	for s, want := range map[string]bool{"169.254.20.10:53": true, "0.0.0.0:53": true, "[::]:53": true, "127.0.0.53:53": false} {
		if got := inTheWay(socket{local: netip.MustParseAddrPort(s)}, at); got != want {
			t.Errorf("%s in the way = %v, want %v", s, got, want)
		}
	}
}
