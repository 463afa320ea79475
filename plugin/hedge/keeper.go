package hedge

import (
	"context"
	"errors"
	"time"

	"firebreakdns.io/firebreak/plugin/hedge/engine"
	"firebreakdns.io/firebreak/plugin/hedge/exchange"
)

// keep probes upstreams that are ejected or suspected, and tells of changes. It
// sleeps until there is something to do.
func (g *group) keep() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, next := g.view.Probes(g.now())
		for _, p := range due {
			if !g.spawn(func() { g.probe(p) }) {
				return
			}
		}
		g.tell()
		wait := time.Hour
		if next != 0 {
			wait = max(next-g.now(), time.Millisecond)
		}
		timer.Reset(wait)
		select {
		case <-g.attend:
		case <-timer.C:
		case <-g.done:
			return
		}
	}
}

// probe asks the zone's own question. Over a connection it takes a new one: what
// is open may be what is broken.
func (g *group) probe(p *engine.Probe) {
	outcome := engine.Failed
	defer func() {
		g.view.Probed(p, outcome, g.now())
		g.wake()
	}()
	peer := g.peer(p.Key)
	if peer == nil {
		outcome = engine.Unsent
		return
	}
	askedTotal.WithLabelValues(g.options.from, p.Key, p.Transport.String(), "probe").Inc()
	if outages.takes(peer.addr) {
		select {
		case <-time.After(p.Within):
		case <-g.done:
		}
		return
	}
	try := &engine.Attempt{Key: p.Key, Transport: p.Transport}
	heard := func(b []byte) { _, outcome = g.judge(try, b) }
	if p.Transport == engine.UDP {
		d, err := peer.Send(g.probeMsg)
		if err != nil {
			outcome = failed(err)
			return
		}
		defer d.Close()
		_ = d.Receive(time.Now().Add(p.Within), heard) // what came of it is the outcome
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Within)
	defer cancel()
	if err := peer.Ask(ctx, g.probeMsg, true, heard); err != nil && !errors.Is(err, exchange.ErrTimeout) {
		outcome = failed(err)
	}
}

// tell counts, logs and announces what changed.
func (g *group) tell() {
	events := g.core.Events()
	for _, e := range events {
		m := ejectedGauge.WithLabelValues(g.options.from, e.Key, e.Transport.String())
		if !e.Ejected {
			m.Set(0)
			log.Infof("%s: %s answers again over %s", g.options.from, e.Key, e.Transport)
			continue
		}
		m.Set(1)
		ejectionsTotal.WithLabelValues(g.options.from, e.Key, e.Transport.String(), e.Cause.String()).Inc()
		log.Warningf("%s: %s is not asked over %s for %s: %s", g.options.from, e.Key, e.Transport, e.For, reasonOf(e.Cause))
		if peer := g.peer(e.Key); peer != nil && e.Transport != engine.UDP {
			peer.Retire()
		}
	}
	if len(events) > 0 {
		changed()
	}
	if denied := g.core.Denied(); denied != g.denied {
		deniedTotal.WithLabelValues(g.options.from).Add(float64(denied - g.denied))
		g.denied = denied
	}
}

func reasonOf(c engine.Cause) string {
	switch c {
	case engine.Silent:
		return "it does not answer"
	case engine.Broken:
		return "connections to it fail"
	}
	return "it answers SERVFAIL or REFUSED where others have an answer"
}
