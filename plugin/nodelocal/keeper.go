//go:build linux

package nodelocal

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"firebreakdns.io/firebreak/plugin/nodecache"
	"firebreakdns.io/firebreak/plugin/nodelocal/link"
	"firebreakdns.io/firebreak/plugin/nodelocal/rules"
	"firebreakdns.io/firebreak/plugin/pkg/generation"
	"firebreakdns.io/firebreak/plugin/pkg/wire"
)

// Times of the keeper.
const (
	// settle is how long events are waited for that come with one: pods come and go.
	settle = 20 * time.Millisecond
	// lookEvery is how often what is in force is looked at. What somebody removes is
	// back within a second; links and addresses at once, by their events.
	lookEvery = 500 * time.Millisecond
	// checkEvery is how often an address that is not captured is tried.
	checkEvery = time.Second
	// againAfter is how long an address is left alone that a firewall cut off; each
	// time twice as long.
	againAfter  = 30 * time.Second
	againAtMost = 10 * time.Minute
	// enoughPackets that come for an address and do not get through within throughWithin
	// are no accident.
	enoughPackets = 3
	throughWithin = time.Second
	// endsAfter is how long an address lasts that a start put, and that nobody came to
	// listen at.
	endsAfter = 2 * time.Minute
	// capturesWithin is how long after the first address the others may take.
	capturesWithin = 3 * time.Second
	// heldAtMost is how long a process that has let go of the addresses may take to end.
	heldAtMost = 10 * time.Second
	// yieldAfter is how long one that does not answer stays beside an older one that does.
	yieldAfter = 10 * time.Second
	// farewell is how long one that ends waits for others that end at the same moment.
	farewell = 50 * time.Millisecond
)

// node is what this process has of its node.
var node = &keeper{}

// keeper puts and keeps the node's link, addresses and rules.
type keeper struct {
	mu    sync.Mutex
	wants []*wish // of the Corefiles that hold it, oldest first; none: nothing is kept
	*running
}

// running is what there is between the first Corefile and the last.
type running struct {
	options *options // link, rules, port and teardown are the same as long as it runs
	member  *generation.Member
	link    *link.Link
	backend rules.Backend // nil: none works yet
	applied rules.Set
	entries map[netip.Addr]*entry
	gone    []netip.Addr // still on the link, and in no Corefile any more

	began      time.Time
	yielded    bool
	held       bool // nothing is steered here: an older generation has the packets, or nothing is captured
	listens    bool // the first Corefile's servers
	owner      bool
	ownerSince time.Time
	swept      string // whom it was last swept for
	tookFrom   string // who there was when scrapes were last taken over
	openAt     time.Time
	lookedAt   time.Time         // at rules that all generations share
	ipv4, ipv6 bool              // what the rules were opened for
	troubles   map[string]string // what was last said of each trouble
	repairs    repairs

	wake   chan struct{}
	cancel context.CancelFunc
	unhook func()
	done   sync.WaitGroup
}

// entry is one address.
type entry struct {
	addr      netip.Addr
	captured  bool
	tidied    bool // what NodeLocal DNSCache left for it is removed
	since     time.Time
	reason    string // why it is not captured
	detail    string
	nextCheck time.Time
	checking  bool
	arrived   time.Time // when it was seen that pods ask, and nothing gets through
	passed    bool      // something did
	failures  int       // times that it was found cut off
}

// Reasons why an address is not captured.
const (
	reasonStarting = "starting" // not tried yet
	reasonLink     = "link"     // link or address cannot be put
	reasonCheck    = "check"    // the own server does not answer
	reasonRules    = "rules"    // rules cannot be written
	reasonFirewall = "firewall" // the host drops untracked packets
)

var allReasons = []string{reasonStarting, reasonLink, reasonCheck, reasonRules, reasonFirewall}

// prepare has the addresses there for CoreDNS to bind, and says what is in the
// way. After an error the node is as it was.
func (k *keeper) prepare(w *wish) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running != nil {
		if was := k.options; was.link != w.link || was.rules != w.rules || was.port != w.port || was.keep != w.keep {
			nodecache.SetupError(nodecache.SetupErrorConfig)
			return fmt.Errorf("link, rules, port and teardown cannot change while the server runs: restart it (a rolling restart of the DaemonSet loses nothing)")
		}
	}
	if err := listensAt(w); err != nil {
		nodecache.SetupError(nodecache.SetupErrorConfig)
		return err
	}
	r := k.running
	if r == nil {
		var err error
		if r, err = newRunning(w.options); err != nil {
			return err
		}
	}
	if err := r.putForStart(w); err != nil {
		if k.running == nil {
			wire.Release()
			r.member.Leave()
		}
		return err
	}
	k.running = r
	return nil
}

func newRunning(o *options) (*running, error) {
	m, err := generation.Join(groupOf(o.link))
	if err != nil {
		return nil, err
	}
	wire.HoldBack()
	return &running{
		options: o, member: m, held: true, link: link.New(o.link), entries: make(map[netip.Addr]*entry),
		troubles: make(map[string]string), wake: make(chan struct{}, 1),
	}, nil
}

// groupOf is how the generations of a link find each other.
func groupOf(link string) string { return "nodelocal-" + link }

// putForStart puts what is missing, for a while, and takes it back if it cannot all
// be had.
func (r *running) putForStart(w *wish) (err error) {
	had := link.Exists(w.link)
	missing := w.addrs
	if had {
		if missing, err = r.link.Missing(w.addrs); err != nil {
			return err
		}
	}
	defer func() {
		if err == nil {
			return
		}
		undo := r.link.Remove
		if had {
			undo = r.link.Drop
		}
		if e := undo(missing); e != nil {
			log.Warningf("%v", e)
		}
	}()
	if _, err = r.link.Put(w.addrs, endsAfter); err != nil {
		nodecache.SetupError(nodecache.SetupErrorInterfaceAdd)
		return err
	}
	served := r.cancel != nil || len(r.member.Peers()) > 0
	for _, a := range w.addrs {
		if err = portFree(netip.AddrPortFrom(a, w.port), served); err != nil {
			nodecache.SetupError(nodecache.SetupErrorInterfaceCheck)
			return err
		}
	}
	return nil
}

// want is told of the Corefiles that hold the node's addresses, whenever they
// change.
func (k *keeper) want(live []*wish) {
	k.mu.Lock()
	k.wants = slices.Clone(live)
	r := k.running
	if r == nil { // its first one could not be prepared
		k.mu.Unlock()
		return
	}
	if len(live) == 0 {
		k.running = nil
		k.mu.Unlock()
		k.end(r)
		return
	}
	all := k.all()
	for a := range r.entries {
		if !slices.Contains(all, a) {
			delete(r.entries, a)
			r.gone = append(r.gone, a)
		}
	}
	for _, a := range live[len(live)-1].addrs {
		if r.entries[a] == nil {
			r.entries[a] = &entry{addr: a, reason: reasonStarting, detail: "not tried yet"}
		}
	}
	if r.cancel == nil {
		r.begin(k)
	} else {
		// Now, and not at the next look: what the newest Corefile does not have is to
		// be let go before the old one's servers stop.
		k.pass(r, time.Now())
	}
	k.mu.Unlock()
	r.nudge()
}

// serving is told that the newest Corefile's servers listen: what was put for a
// while is to stay.
func (k *keeper) serving() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running == nil || len(k.wants) == 0 {
		return
	}
	r, newest := k.running, k.wants[len(k.wants)-1]
	newest.serves = true
	if _, err := r.link.Put(newest.addrs, 0); err != nil {
		nodecache.SetupError(nodecache.SetupErrorInterfaceAdd)
		r.trouble(reasonLink, err.Error())
	}
	r.listens = true
	r.member.Claim()
	r.nudge()
}

// begin starts the loop.
func (r *running) begin(k *keeper) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.began = cancel, time.Now()
	unhook, err := link.Watch(r.nudge)
	if err != nil {
		log.Warningf("Links are only looked at every %s: %v", lookEvery, err)
		unhook = func() {}
	}
	r.unhook = unhook
	r.done.Go(func() { k.loop(ctx, r) })
}

// nudge has the loop look now.
func (r *running) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// loop looks at what is in force, at each event and twice a second, until it ends.
func (k *keeper) loop(ctx context.Context, r *running) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		k.mu.Lock()
		if k.running == r {
			k.pass(r, time.Now())
			k.startChecks(ctx, r, time.Now())
		}
		k.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.wake:
			time.Sleep(settle)
		case <-r.member.Changed():
		}
	}
}

// end takes away what is to go, when no Corefile has the addresses any more.
func (k *keeper) end(r *running) {
	// A process that goes on without the node's addresses answers for itself; one that
	// ends is gone by then.
	time.AfterFunc(heldAtMost, wire.Release)
	if r.cancel != nil {
		r.cancel()
		r.unhook()
		r.done.Wait()
	}
	// Two that end at the same moment are not to leave it to each other.
	_ = r.member.Publish(factEnding, true)
	time.Sleep(farewell)
	others := 0
	for _, p := range r.member.Peers() {
		if string(p.Facts[factEnding]) != "true" {
			others++
		}
	}
	last := others == 0
	if r.backend != nil {
		// Rules of its own go in any case; those that all share go with the last one.
		if err := r.backend.Close(last && r.options.keep || !last && r.backend.Shared()); err != nil {
			log.Errorf("Removing the rules: %v", err)
		}
	}
	if last && !r.options.keep {
		addrs := slices.Clone(r.gone)
		for a := range r.entries {
			addrs = append(addrs, a)
		}
		if err := r.link.Remove(addrs); err != nil {
			log.Errorf("%v", err)
		}
	}
	r.member.Leave()
	switch {
	case !last:
		log.Infof("Link %s is left to the other generation", r.link.Name())
	case r.options.keep:
		log.Infof("Link %s is kept for the next start (teardown keep)", r.link.Name())
	default:
		log.Infof("Link %s and the rules are removed", r.link.Name())
	}
}

// Facts that generations tell each other.
const (
	factCaptured = "captured" // true: at least one address
	factEnding   = "ending"   // true: it leaves link and rules to others
)

// ready says whether every address of the newest Corefile is captured.
func (k *keeper) ready() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running == nil || len(k.wants) == 0 {
		return false
	}
	for _, a := range k.wants[len(k.wants)-1].addrs {
		if e := k.entries[a]; e == nil || !e.captured {
			return false
		}
	}
	return true
}
