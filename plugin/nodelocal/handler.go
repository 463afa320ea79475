package nodelocal

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/coredns/coredns/plugin"

	"github.com/miekg/dns"
)

// handler does nothing to queries, but for those that this process asked itself: it
// notes that they arrived here, and not at another generation that listens at the
// same address.
type handler struct{ next plugin.Handler }

// Name implements plugin.Handler.
func (*handler) Name() string { return pluginName }

// Ready implements ready.Readiness.
func (*handler) Ready() bool { return node.ready() }

// NotReady says why Ready is false: of the first address that is not captured.
func (*handler) NotReady() string {
	s := node.status()
	if s == nil {
		return "it is starting"
	}
	for _, a := range s.Addresses {
		switch {
		case a.Captured:
		case a.Detail != "":
			return a.Address + " is not captured: " + a.Detail
		default:
			return a.Address + " is not captured: " + a.Reason
		}
	}
	return ""
}

// ServeDNS implements plugin.Handler.
func (h *handler) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if q := asked.note(r); q != nil {
		r = q
	}
	return plugin.NextOrFailure(pluginName, h.next, ctx, w, r)
}

// own marks what this process asks itself.
type own struct {
	mark    [16]byte
	last    atomic.Uint64
	waiting sync.Map // number of a question -> *atomic.Bool, that it arrived
}

// asked is new with every process.
var asked = newOwn()

func newOwn() *own {
	o := &own{}
	_, _ = rand.Read(o.mark[:]) // never fails
	return o
}

// markOption is the EDNS option (RFC 6891, local use) with the mark and the
// question's number.
const markOption = 65314

// put marks a question. arrived says whether it has come in here by now; forget is
// to be called in the end.
func (o *own) put(q *dns.Msg) (arrived func() bool, forget func()) {
	n := o.last.Add(1)
	here := new(atomic.Bool)
	o.waiting.Store(n, here)
	q.SetEdns0(1232, false)
	opt := q.IsEdns0()
	opt.Option = append(opt.Option, &dns.EDNS0_LOCAL{Code: markOption, Data: binary.BigEndian.AppendUint64(append([]byte(nil), o.mark[:]...), n)})
	return here.Load, func() { o.waiting.Delete(n) }
}

// note takes note of a marked question, and returns it without the mark, which is
// not for upstreams. nil: it has none.
func (o *own) note(r *dns.Msg) *dns.Msg {
	opt := r.IsEdns0()
	if opt == nil || len(opt.Option) == 0 {
		return nil
	}
	for i, e := range opt.Option {
		l, ok := e.(*dns.EDNS0_LOCAL)
		if !ok || l.Code != markOption || len(l.Data) != len(o.mark)+8 || subtle.ConstantTimeCompare(l.Data[:len(o.mark)], o.mark[:]) != 1 {
			continue
		}
		if here, ok := o.waiting.Load(binary.BigEndian.Uint64(l.Data[len(o.mark):])); ok {
			here.(*atomic.Bool).Store(true) //nolint:errcheck // nothing else is in there
		}
		q := r.Copy()
		opt = q.IsEdns0()
		opt.Option = append(opt.Option[:i:i], opt.Option[i+1:]...)
		return q
	}
	return nil
}
