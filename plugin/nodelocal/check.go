package nodelocal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"firebreakdns.io/firebreak/plugin/pkg/wire"
)

// Times of one check. A cold upstream may take a while; what is captured already is
// near.
const (
	answerWithin   = 2 * time.Second
	capturedWithin = 500 * time.Millisecond
	capturedTries  = 3
	// otherGenerations is how often another process may answer in this one's place: with
	// two that share an address it is every second time, with a new port each.
	otherGenerations = 40
)

// errOther says that another process answered, as often as it was tried.
var errOther = errors.New("another process answers at the address")

// probe asks for name through an address, from itself, over UDP and TCP. reached
// says that this process got a question, whatever became of it.
func probe(ctx context.Context, name string, at netip.AddrPort) (reached bool, err error) {
	for _, network := range []string{"udp", "tcp"} {
		got, err := probeOver(ctx, network, name, at)
		reached = reached || got
		if err != nil {
			return reached, err
		}
	}
	return true, nil
}

func probeOver(ctx context.Context, network, name string, at netip.AddrPort) (reached bool, err error) {
	for range otherGenerations {
		reached, err = ask(ctx, network, name, at, at.Addr(), answerWithin)
		if reached || err != nil {
			return reached, err
		}
	}
	return false, errOther
}

// askHere asks the server of this process alone, without a socket: while packets are
// left to an older generation none comes here. It is nil where that cannot be, since
// then they are not left to it either. reached is as with probe.
func askHere(name string, at netip.AddrPort) (reached bool, err error) {
	answer, err := wire.Ask(at, question(name, at.Addr()))
	switch {
	case errors.Is(err, wire.ErrNobody):
		return false, nil
	case err != nil:
		return true, err
	case answer.Rcode != dns.RcodeSuccess && answer.Rcode != dns.RcodeNameError:
		return true, &rcodeError{rcode: answer.Rcode}
	}
	return true, nil
}

// question asks for an address of the family of the one it is sent to.
func question(name string, at netip.Addr) *dns.Msg {
	if at.Is6() {
		return new(dns.Msg).SetQuestion(name, dns.TypeAAAA)
	}
	return new(dns.Msg).SetQuestion(name, dns.TypeA)
}

// through asks as any process of this host would, when the address is captured.
func through(ctx context.Context, name string, at netip.AddrPort) error {
	for _, network := range []string{"udp", "tcp"} {
		var err error
		for range capturedTries {
			if _, err = ask(ctx, network, name, at, netip.Addr{}, capturedWithin); err == nil || answered(err) {
				err = nil // whatever it said, it was reached
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rcodeError is an answer that is none.
type rcodeError struct {
	network string // "": asked without one
	rcode   int
}

func (e *rcodeError) Error() string {
	if e.network == "" {
		return dns.RcodeToString[e.rcode] + " from this server, asked by itself"
	}
	return fmt.Sprintf("%s over %s", dns.RcodeToString[e.rcode], e.network)
}

// silentError is no answer, and no word of the kernel that nobody listens.
type silentError struct {
	network string
	within  time.Duration
}

func (e *silentError) Error() string {
	return fmt.Sprintf("no answer over %s within %s", e.network, e.within)
}

func silent(err error) bool {
	var e *silentError
	return errors.As(err, &e)
}

func answered(err error) bool {
	var e *rcodeError
	return errors.As(err, &e)
}

// ask asks one question. NOERROR and NXDOMAIN are answers; anything else is an
// error. here says that the question came in at this process.
func ask(ctx context.Context, network, name string, at netip.AddrPort, from netip.Addr, within time.Duration) (here bool, err error) {
	q := question(name, at.Addr())
	arrived, forget := asked.put(q)
	defer forget()
	d := &net.Dialer{Timeout: within}
	if from.IsValid() {
		if network == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		} else {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		}
	}
	client := &dns.Client{Net: network, Dialer: d, Timeout: within}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answer, _, err := client.ExchangeContext(ctx, q, at.String())
	if err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return arrived(), &silentError{network, within}
		}
		return arrived(), fmt.Errorf("over %s: %w", network, err)
	}
	if answer.Rcode != dns.RcodeSuccess && answer.Rcode != dns.RcodeNameError {
		return arrived(), &rcodeError{network, answer.Rcode}
	}
	return arrived(), nil
}
