package clients

import (
	"context"
	"crypto/tls"

	"github.com/miekg/dns"
)

// Asked is a query on its way down CoreDNS's chain: whose it is, and what is
// sent back. It is the dns.ResponseWriter of all plugins behind this one.
type Asked struct {
	dns.ResponseWriter
	Query  Query
	ticket Ticket
	of     *Clients
	at     *Listener
}

type askedKey struct{}

// Of is the query that ctx belongs to, or nil: the server block does not have
// the plugin.
func Of(ctx context.Context) *Asked {
	a, _ := ctx.Value(askedKey{}).(*Asked)
	return a
}

// Drilled counts the query as taken by a drill: what is written from now on is
// no answer.
func (a *Asked) Drilled(now Moment) { a.of.process.Drilled(&a.ticket, now) }

// WriteMsg implements dns.ResponseWriter.
func (a *Asked) WriteMsg(m *dns.Msg) error {
	a.answered(m.Rcode, m.Truncated)
	cut := m.Truncated
	err := a.ResponseWriter.WriteMsg(m)
	if m.Truncated && !cut { // CoreDNS cuts to the client's size on the way out
		a.of.process.Truncated(&a.ticket)
	}
	return err
}

// Write implements dns.ResponseWriter.
func (a *Asked) Write(b []byte) (int, error) {
	if len(b) >= 4 { // the flags of the header: RFC 1035, 4.1.1
		a.answered(int(b[3]&0xf), b[2]&0x2 != 0)
	}
	return a.ResponseWriter.Write(b)
}

func (a *Asked) answered(rcode int, truncated bool) {
	if a.ticket.state == ticketOpen {
		failed := 0
		if isError(rcode) {
			failed = 1
		}
		a.at.AddAnswers(1, failed)
	}
	a.of.process.Answered(&a.ticket, rcode, truncated, Now())
}

// ConnectionState implements dns.ConnectionStater: embedding alone would hide
// the TLS state from the plugins behind this one.
func (a *Asked) ConnectionState() *tls.ConnectionState {
	if s, ok := a.ResponseWriter.(dns.ConnectionStater); ok {
		return s.ConnectionState()
	}
	return nil
}
