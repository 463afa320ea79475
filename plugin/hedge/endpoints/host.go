package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

const (
	// A TTL is kept to, within bounds: 0 would be a storm, and a day of a wrong
	// address an outage.
	hostLeast = 5 * time.Second
	hostMost  = time.Hour
	// hostRetry is when a name that could not be resolved is asked again.
	hostRetry = 5 * time.Second
	// askWithin is what one server may take.
	askWithin = 2 * time.Second
)

// Host is a name whose addresses are servers. It is looked up anew at its TTL.
type Host struct {
	Name string // fully qualified
	Port uint16
	// Resolvers are asked for it: IP:PORT. None: those in /etc/resolv.conf.
	Resolvers []string
	// Least and Retry replace hostLeast and hostRetry in tests. 0: those.
	Least, Retry time.Duration
}

// String implements Source.
func (h *Host) String() string {
	s := fmt.Sprintf("%s:%d", h.Name, h.Port)
	for _, r := range h.Resolvers {
		s += " by " + r
	}
	return s
}

// Run implements Source.
func (h *Host) Run(ctx context.Context, found func([]Endpoint, error)) {
	least, retry := h.Least, h.Retry
	if least == 0 {
		least = hostLeast
	}
	if retry == 0 {
		retry = hostRetry
	}
	c := &changes{found: found}
	for {
		list, ttl, err := h.lookup(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := min(max(ttl, least), hostMost)
		if err != nil {
			c.fail(err)
			wait = retry
		} else {
			c.tell(list)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// lookup asks for A and AAAA, and says how long the answers may be kept.
func (h *Host) lookup(ctx context.Context) ([]Endpoint, time.Duration, error) {
	resolvers := h.Resolvers
	if len(resolvers) == 0 {
		system, err := ReadResolvConf("/etc/resolv.conf")
		if err != nil {
			return nil, 0, fmt.Errorf("cannot resolve %s: %w", h.Name, err)
		}
		for _, r := range system {
			resolvers = append(resolvers, r.Addr.String())
		}
	}
	var list []Endpoint
	ttl := hostMost
	var failed error
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		m, err := ask(ctx, resolvers, h.Name, qtype)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		for _, rr := range m.Answer {
			ttl = min(ttl, time.Duration(rr.Header().Ttl)*time.Second) // of a CNAME as well
			var ip net.IP
			switch rr := rr.(type) {
			case *dns.A:
				ip = rr.A
			case *dns.AAAA:
				ip = rr.AAAA
			}
			if a, ok := netip.AddrFromSlice(ip); ok {
				list = append(list, Endpoint{Addr: netip.AddrPortFrom(a.Unmap(), h.Port)})
			}
		}
	}
	if len(list) > 0 {
		return list, ttl, nil
	}
	if failed == nil {
		failed = fmt.Errorf("%s has no address", h.Name)
	}
	return nil, 0, failed
}

// ask asks one resolver after the other.
func ask(ctx context.Context, resolvers []string, name string, qtype uint16) (*dns.Msg, error) {
	q := new(dns.Msg).SetQuestion(name, qtype)
	q.SetEdns0(1232, false)
	var failed error
	for _, r := range resolvers {
		for _, over := range []string{"udp", "tcp"} {
			c := &dns.Client{Net: over, Timeout: askWithin}
			m, _, err := c.ExchangeContext(ctx, q, r)
			if err == nil && m.Truncated {
				continue // to TCP
			}
			if err == nil && m.Rcode == dns.RcodeNameError {
				return m, fmt.Errorf("%s does not exist", name)
			}
			if err == nil && m.Rcode != dns.RcodeSuccess {
				err = fmt.Errorf("%s answers %s", r, dns.RcodeToString[m.Rcode])
			}
			if err == nil {
				return m, nil
			}
			failed = errors.Join(failed, fmt.Errorf("cannot resolve %s: %w", name, err))
			break
		}
	}
	return nil, failed
}
