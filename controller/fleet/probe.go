package fleet

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// probeTimeout of one DNS question of our own.
const probeTimeout = 2 * time.Second

// probe asks one server, and says why it was not answered. Each token is 32 hex
// digits, or "": a drill's lets the probe through it, the server's own mark
// keeps it from being counted as a client's.
func probe(ctx context.Context, at netip.AddrPort, q Question, tokens ...string) error {
	m := new(dns.Msg)
	m.SetQuestion(q.Name, q.Type)
	m.SetEdns0(1232, false)
	for _, token := range tokens {
		if raw, err := hex.DecodeString(token); err == nil && len(raw) > 0 {
			o := m.IsEdns0()
			o.Option = append(o.Option, &dns.EDNS0_LOCAL{Code: protocol.ProbeOption, Data: raw})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	r, err := exchange(ctx, at, m)
	if err != nil {
		return err
	}
	// Any other code is an answer: the server works, whatever it was asked for.
	if r.Rcode == dns.RcodeServerFailure || r.Rcode == dns.RcodeRefused {
		return fmt.Errorf("%s %s was answered %s", q.Name, dns.TypeToString[q.Type], dns.RcodeToString[r.Rcode])
	}
	return nil
}

func exchange(ctx context.Context, at netip.AddrPort, m *dns.Msg) (*dns.Msg, error) {
	deadline, _ := ctx.Deadline()
	c := dns.Client{Net: "udp", UDPSize: 1232, Timeout: time.Until(deadline)}
	r, _, err := c.ExchangeContext(ctx, m, at.String())
	return r, plainly(err)
}

// How a monitor asks: as a stub does that is told "attempts:2" and gives up
// after five seconds.
const (
	lookupAttempts = 2
	lookupWithin   = 5 * time.Second
)

// Lookup looks a monitor's name up as a client would: at the balancer's address
// or at the servers in their order, twice round, within five seconds; or at one
// server alone, where only its clients are to feel the drill. It carries no
// token: it is to feel the drill. Like a client, it takes what is refused or
// fails as a reason to ask the next one.
func (c *Config) Lookup(ctx context.Context, monitor run.Monitor, only string) error {
	at := c.Service
	if only != "" || len(at) == 0 {
		at = nil
		for _, s := range c.Servers {
			if only == "" || s.Name == only {
				at = append(at, s.DNS[0])
			}
		}
	}
	if len(at) == 0 {
		return fmt.Errorf("the fleet has no server %q", only)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupWithin)
	defer cancel()
	each := lookupWithin / time.Duration(lookupAttempts*len(at))
	var last error
	for range lookupAttempts {
		for _, a := range at {
			if last = lookupOnce(ctx, a, monitor, each); last == nil || ctx.Err() != nil {
				return last
			}
			if no, ok := last.(nameError); ok {
				return no
			}
		}
	}
	return last
}

// nameError is an answer that no other server would give differently.
type nameError string

func (e nameError) Error() string { return string(e) }

func lookupOnce(ctx context.Context, at netip.AddrPort, monitor run.Monitor, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(monitor.Name), dns.StringToType[monitor.Type])
	r, err := exchange(ctx, at, m)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", at, err)
	case r.Rcode == dns.RcodeNameError:
		return nameError(fmt.Sprintf("%s: there is no such name", at))
	case r.Rcode != dns.RcodeSuccess:
		return fmt.Errorf("%s answered %s", at, dns.RcodeToString[r.Rcode])
	}
	return nil
}
