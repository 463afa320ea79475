//go:build linux

package nodelocal

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/nodecache"
	"firebreakdns.io/firebreak/plugin/nodelocal/rules"
	"firebreakdns.io/firebreak/plugin/nodelocal/scrape"
	"firebreakdns.io/firebreak/plugin/pkg/generation"
	"firebreakdns.io/firebreak/plugin/pkg/wire"
)

// repairs are what was put back.
type repairs struct {
	n    uint64
	at   time.Time
	what string
}

func (r *running) repaired(why, what string, now time.Time) {
	repairsTotal.WithLabelValues(why).Inc()
	r.repairs = repairs{r.repairs.n + 1, now, what}
	log.Warningf("Somebody removed or changed what is ours; it is back: %s", what)
}

// trouble says what is wrong, once for each change of it; "" is nothing.
func (r *running) trouble(of, what string) {
	if r.troubles[of] == what {
		return
	}
	r.troubles[of] = what
	if what != "" {
		log.Errorf("%s", what)
	}
	control.Changed()
}

// pass brings what is in force to what is wanted. k.mu is held.
func (k *keeper) pass(r *running, now time.Time) {
	peers := r.member.Peers()
	if owner := r.member.Owner(); owner != r.owner {
		r.owner = owner
		if owner {
			r.ownerSince = now
			log.Infof("This generation (%s) has the link %s", r.member.ID(), r.link.Name())
		} else {
			r.tookFrom = ""
			log.Infof("A newer generation has the link %s: this one changes nothing any more", r.link.Name())
		}
		control.Changed()
	}
	r.yield(peers, now)
	if living := livingIDs(peers); r.owner && r.tookFrom != living {
		r.tookFrom = living
		scrape.Take()
	}
	if r.listens && r.owner {
		k.keepLink(r, peers, now)
	}
	k.keepRules(r, peers, now)
	if r.held && r.captures(now) {
		r.release()
	}
	if cut := r.cutOff(now); len(cut) > 0 {
		for _, e := range cut {
			r.letGo(e, now, fmt.Sprintf("packets came for %s and none of them got through: a firewall of the host drops untracked packets of pods; accept those to %s at port %d there", e.addr, e.addr, r.options.port))
		}
		k.keepRules(r, peers, now)
	}
}

// cutOff are captured addresses to which pods send and nothing gets through, from
// the first packet on. Our own questions do not show that: they come from this host,
// which firewalls often let pass.
func (r *running) cutOff(now time.Time) (cut []*entry) {
	waiting := false
	for _, e := range r.entries {
		waiting = waiting || e.captured && !e.passed
	}
	if !waiting || r.backend == nil {
		return nil
	}
	flows, err := r.backend.Flows()
	if err != nil {
		return nil // the kernel was busy with a change; look again
	}
	for _, e := range r.entries {
		f := flows[e.addr]
		switch {
		case !e.captured || e.passed:
		case f.Passed > 0:
			e.passed, e.failures = true, 0
		case f.Arrived < enoughPackets:
		case e.arrived.IsZero():
			e.arrived = now
		case now.Sub(e.arrived) >= throughWithin:
			cut = append(cut, e)
		}
	}
	return cut
}

// letGo stops capturing an address that was found cut off, and leaves it alone for
// a while, each time for longer.
func (r *running) letGo(e *entry, now time.Time, why string) {
	nodecache.SetupError(nodecache.SetupErrorRules)
	wait := min(againAfter<<min(e.failures, 8), againAtMost)
	e.failures++
	e.captured, e.nextCheck = false, now.Add(wait)
	e.not(reasonFirewall, fmt.Sprintf("%s. The rules for it are taken away, and tried again after %s", why, wait))
	r.trouble(e.addr.String(), "Not captured: "+e.detail)
}

// release has packets come here: from an older generation that had them so far, or
// because they are captured. Before that, what is sent from here to a Service goes
// elsewhere, and wire would look for its sockets in vain.
func (r *running) release() {
	r.held = false
	wire.Release()
}

// captures says whether all addresses are captured that are going to be.
func (r *running) captures(now time.Time) bool {
	some, all := false, true
	for _, e := range r.entries {
		some = some || e.captured && now.Sub(e.since) >= capturesWithin
		all = all && e.captured
	}
	return all || some
}

// behind says that an older generation has the packets.
func (r *running) behind() bool { return r.held && len(r.member.Peers()) > 0 }

// yield ends this process if it cannot answer and an older generation does, and their
// packets cannot be left to that one: it has shared them from the moment it listened, and
// nothing else gives them back. Whoever started it may try again.
func (r *running) yield(peers []generation.Peer, now time.Time) {
	if r.behind() || r.yielded || r.cancel == nil || now.Sub(r.began) < yieldAfter {
		return
	}
	why := ""
	for _, e := range r.entries {
		if e.captured {
			return
		}
		why = e.detail
	}
	for _, p := range peers {
		if !p.Newer && string(p.Facts[factCaptured]) == "true" && string(p.Facts[factEnding]) != "true" {
			r.yielded = true
			log.Errorf("An older generation (%s) answers on this node and this one does not after %s: it ends, so that the older one has all packets again. %s", p.ID, yieldAfter, why)
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				log.Errorf("Ending: %v", err)
			}
			return
		}
	}
}

// all are the addresses that any Corefile here has: during a reload those of both.
func (k *keeper) all() (all []netip.Addr) {
	for _, w := range k.wants {
		for _, a := range w.addrs {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// keepLink has the link and all addresses there, and none that nobody serves.
func (k *keeper) keepLink(r *running, peers []generation.Peer, now time.Time) {
	want := k.all()
	missing, err := r.link.Missing(want)
	if err == nil && len(missing) > 0 {
		var did []string
		if did, err = r.link.Put(want, 0); len(did) > 0 {
			r.repaired(repairLink, strings.Join(did, ", "), now)
		}
	}
	if err != nil {
		nodecache.SetupError(nodecache.SetupErrorInterfaceAdd)
		r.trouble(reasonLink, err.Error())
		return
	}
	r.trouble(reasonLink, "")
	if len(peers) > 0 || len(k.wants) > 1 {
		return // others may serve what is not ours
	}
	others, err := r.link.Others(want)
	if err != nil {
		return
	}
	for _, a := range r.gone {
		if !slices.Contains(others, a) && !slices.Contains(want, a) {
			others = append(others, a)
		}
	}
	if len(others) == 0 {
		return
	}
	if err := r.link.Drop(others); err != nil {
		r.trouble(reasonLink, err.Error())
		return
	}
	r.gone = nil
	log.Infof("Removed from link %s, because nobody serves them any more: %v", r.link.Name(), others)
}

// keepRules has the rules in force that the addresses are ready for.
func (k *keeper) keepRules(r *running, peers []generation.Peer, now time.Time) {
	newest := k.wants[len(k.wants)-1]
	// What the newest Corefile does not have is let go at once: the old servers still
	// answer, and soon will not. Should it fail, it is captured again.
	set := rules.Set{Port: r.options.port}
	for _, a := range newest.addrs {
		if e := r.entries[a]; e.captured {
			set.Capture = append(set.Capture, a)
		} else {
			set.Probe = append(set.Probe, a)
		}
	}
	if r.options.rules == noRules {
		return
	}
	if r.backend != nil && r.backend.Shared() && r.lacks(newest) {
		r.backend, r.applied = nil, rules.Set{} // opened again, for both families
	}
	if r.backend == nil && !k.openRules(r, newest, now) {
		return
	}
	if r.backend.Shared() && !r.writes(peers, len(set.Capture) > 0) {
		return
	}
	if living := livingIDs(peers); r.owner && r.swept != living {
		removed, err := r.backend.Sweep(strings.Fields(living))
		if err != nil {
			r.trouble("sweep", err.Error())
		} else {
			r.trouble("sweep", "")
			r.swept = living
		}
		if len(removed) > 0 {
			log.Infof("Removed what a generation left that was killed: %s", strings.Join(removed, ", "))
		}
	}
	changed := !set.Equal(r.applied)
	if !changed {
		if r.backend.Shared() && now.Sub(r.lookedAt) < lookEvery-settle {
			return // it takes programs to look, and events may be many
		}
		r.lookedAt = now
		whole, err := r.backend.Intact()
		if err != nil || whole {
			return // an error: the kernel was busy with a change; look again
		}
	}
	if err := r.backend.Apply(set); err != nil {
		nodecache.SetupError(nodecache.SetupErrorRules)
		r.trouble(reasonRules, fmt.Sprintf("The rules cannot be written: %v", err))
		r.applied = rules.Set{}
		for _, e := range r.entries {
			e.captured = false
			e.not(reasonRules, err.Error())
		}
		return
	}
	r.trouble(reasonRules, "")
	if !changed {
		r.repaired(repairRules, r.backend.Where(), now)
	}
	r.applied = set
	r.tidy(set.Capture)
	_ = r.member.Publish(factCaptured, len(set.Capture) > 0)
}

// tidy removes what NodeLocal DNSCache left for addresses that are captured now. It
// is done once for each: if it still runs, it is not to be fought.
func (r *running) tidy(captured []netip.Addr) {
	var fresh []netip.Addr
	for _, a := range captured {
		if e := r.entries[a]; !e.tidied {
			e.tidied = true
			fresh = append(fresh, a)
		}
	}
	if len(fresh) == 0 {
		return
	}
	n, hint, err := rules.Leftovers(fresh)
	if n > 0 {
		log.Infof("Removed %d rules that NodeLocal DNSCache left", n)
	}
	if err != nil {
		log.Warningf("Removing what NodeLocal DNSCache left: %v", err)
	}
	r.trouble("leftovers", hint)
}

// writes says whether this generation writes the rules that all of them share: the
// newest that captures, or where none does the owner.
func (r *running) writes(peers []generation.Peer, captures bool) bool {
	for _, p := range peers {
		if string(p.Facts[factCaptured]) == "true" && (p.Newer || !captures) {
			return false
		}
	}
	return captures || r.owner || len(peers) == 0
}

func livingIDs(peers []generation.Peer) string {
	ids := []string{"-"} // so that nobody is not the same as never
	for _, p := range peers {
		ids = append(ids, p.ID)
	}
	return strings.Join(ids, " ")
}

// noRules in the Corefile.
const noRules = "none"

// openRules finds what works.
func (k *keeper) openRules(r *running, newest *wish, now time.Time) bool {
	if now.Before(r.openAt) {
		return false
	}
	for _, a := range newest.addrs {
		r.ipv4, r.ipv6 = r.ipv4 || a.Is4(), r.ipv6 || a.Is6()
	}
	o := rules.Options{Link: r.options.link, ID: r.member.ID(), Keep: r.options.keep, IPv4: r.ipv4, IPv6: r.ipv6}
	b, err := rules.Open(r.options.rules, o)
	if err != nil {
		r.openAt = now.Add(5 * time.Second)
		nodecache.SetupError(nodecache.SetupErrorRules)
		r.trouble(reasonRules, fmt.Sprintf("Nothing is captured: %v", err))
		for _, e := range r.entries {
			e.not(reasonRules, err.Error())
		}
		return false
	}
	r.backend = b
	r.trouble(reasonRules, "")
	log.Infof("Rules are %s's, in %s", b.Name(), b.Where())
	return true
}

// lacks says whether a Corefile has a family that the rules were not opened for.
func (r *running) lacks(w *wish) bool {
	return slices.ContainsFunc(w.addrs, func(a netip.Addr) bool { return a.Is4() && !r.ipv4 || a.Is6() && !r.ipv6 })
}

func (e *entry) not(reason, detail string) {
	if !e.captured {
		e.reason, e.detail = reason, detail
	}
}
