//go:build linux

package nodelocal

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/nodecache"
	"firebreakdns.io/firebreak/plugin/nodelocal/rules"
)

// startChecks tries the addresses that are not captured and whose time has come.
func (k *keeper) startChecks(ctx context.Context, r *running, now time.Time) {
	if r.backend == nil && r.options.rules != noRules {
		return
	}
	newest := k.wants[len(k.wants)-1]
	if !newest.serves {
		return
	}
	for _, a := range newest.addrs {
		e := r.entries[a]
		if e.captured || e.checking || now.Before(e.nextCheck) {
			continue
		}
		e.checking = true
		go k.check(ctx, r, e, newest.check) // it ends by itself, and changes nothing then
	}
}

// check tries one address, and captures it if the server answers.
func (k *keeper) check(ctx context.Context, r *running, e *entry, name string) {
	at := netip.AddrPortFrom(e.addr, r.options.port)
	k.mu.Lock()
	behind := r.behind()
	k.mu.Unlock()
	reached, err := false, error(nil)
	if behind {
		if reached, err = askHere(name, at); err == nil {
			k.mu.Lock()
			r.release()
			k.mu.Unlock()
		}
	}
	if err == nil {
		reached, err = probe(ctx, name, at)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e.checking = false
	now := time.Now()
	e.nextCheck = now.Add(checkEvery)
	if ctx.Err() != nil || k.running != r || r.entries[e.addr] != e {
		return
	}
	if err != nil {
		checkFailuresTotal.Inc()
		reason, detail := r.why(name, at, reached, err)
		if e.not(reason, detail); reason == reasonFirewall {
			nodecache.SetupError(nodecache.SetupErrorRules)
		}
		r.trouble(e.addr.String(), "Not captured: "+e.detail)
		return
	}
	if r.options.rules == noRules {
		r.capture(e, now)
		return
	}
	found, err := rules.Look(e.addr, r.options.port)
	if err != nil {
		log.Debugf("Looking at the host's rules: %v", err)
	}
	if found != nil && !r.accepts() {
		nodecache.SetupError(nodecache.SetupErrorRules)
		e.not(reasonFirewall, found.String()+", and so what pods send to "+e.addr.String()+": "+found.Fix(e.addr, r.options.port))
		r.trouble(e.addr.String(), "Not captured: "+e.detail)
		return
	}
	r.capture(e, now)
	k.pass(r, now)
	if slices.Contains(r.applied.Capture, e.addr) || r.backend.Shared() {
		go k.confirm(ctx, r, e, name)
		return
	}
	e.captured = false
	e.not(reasonRules, r.troubles[reasonRules])
}

// accepts says whether our own rules accept ahead of the host's: iptables's do.
func (r *running) accepts() bool { return r.backend.Name() == rules.IPTables }

func (r *running) capture(e *entry, now time.Time) {
	e.captured, e.since, e.reason, e.detail = true, now, "", ""
	e.passed, e.arrived = false, time.Time{}
	r.troubles[e.addr.String()] = ""
	_ = r.member.Publish(factCaptured, true)
	log.Infof("%s is captured: the server answers at it", e.addr)
	control.Changed()
}

// why says what a failed check means, and what to do.
func (r *running) why(name string, at netip.AddrPort, reached bool, err error) (reason, detail string) {
	switch {
	case errors.Is(err, errOther):
		return reasonCheck, fmt.Sprintf("asked %s at %s, and another process answered each time: end the program that listens there (ss -lpn 'sport = :%d')", name, at, at.Port())
	case reached:
		return reasonCheck, fmt.Sprintf("the server was asked %s at %s and did not answer it well (%v): its upstreams are down, or they do not know that name (check NAME is another). Tried again every %s", name, at, err, checkEvery)
	case silent(err) && r.options.rules != noRules:
		// Were there nobody, the kernel would have said so.
		if found, err := rules.Look(at.Addr(), at.Port()); err == nil && found != nil {
			return reasonFirewall, found.String() + ", and so what is sent to " + at.Addr().String() + ": " + found.Fix(at.Addr(), at.Port())
		}
		return reasonFirewall, fmt.Sprintf("the server was asked %s at %s, untracked, and that did not arrive (%v): a firewall of the host drops untracked packets; accept those to %s at port %d, and from it, there", name, at, err, at.Addr(), at.Port())
	}
	return reasonCheck, fmt.Sprintf("the server was asked %s at %s and was not reached (%v): does a server block bind %s? Tried again every %s", name, at, err, at.Addr(), checkEvery)
}

// confirm asks once more now that the address is captured. Who was reached before and
// is not now is cut off by the host's firewall: then the rules go, and others may
// answer.
func (k *keeper) confirm(ctx context.Context, r *running, e *entry, name string) {
	at := netip.AddrPortFrom(e.addr, r.options.port)
	err := through(ctx, name, at)
	if err == nil || ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running != r || !e.captured {
		return
	}
	now := time.Now()
	r.letGo(e, now, fmt.Sprintf("%s answered before it was captured and not after (%v): a firewall of the host drops untracked packets; accept those to %s at port %d, and from it, there", e.addr, err, e.addr, r.options.port))
	k.pass(r, now)
}
