package clients

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/gaissmai/bart"
)

// recordingKept is how long a frozen recording can be read: the controller asks
// for 5 minutes, and 15 minutes after the end once more.
const recordingKept = 30 * time.Minute

// maxSamples bounds the samples of all clients together (24 bytes each): with
// more than 16,384 clients, each gets fewer than protocol.SamplesPerClient.
const maxSamples = 1 << 20

// recording is what a server keeps while a drill of its fleet is on. Its end is
// on the monotonic clock.
type recording struct {
	number  uint32 // of the process's recordings, from 1
	drill   string
	order   protocol.RecordingOrder
	started Moment
	ends    int64      // Moment.Mono
	targets *bart.Lite // nil: everyone
	room    int        // clients
	samples int        // per client

	stopped atomic.Bool // nothing is written any more; changes with all locks held
	clients atomic.Int64
	others  atomic.Int64 // of the clients, not targets
	dropped atomic.Uint64
	parts   [shardCount]recordingShard
}

// recordingShard is a recording's part in one shard, under that shard's lock.
type recordingShard struct {
	whole   *recording
	clients map[addrKey]*recordedClient
	list    []*recordedClient // the same; the seen table's entries know their index
}

// recordedClient is a protocol.RecordedClient in the making.
type recordedClient struct {
	protocol.RecordedClient // but for Address and what is of samples
	asks                    samples
	rec                     *recording
	index                   uint32 // in recordingShard.list
}

// over says whether the recording is frozen.
func (r *recording) over(now Moment) bool { return now.Mono >= r.ends }

func (r *recording) isTarget(a netip.Addr) bool {
	return r.targets == nil || r.targets.Contains(a)
}

// isTarget says whether k belongs to a target of the drill being recorded.
func (t *Table) isTarget(k addrKey) bool {
	r := t.recording.Load()
	return r != nil && !r.stopped.Load() && r.isTarget(k.addr())
}

// of is the record of a client, which is made if there is room: nil if there is
// none, or nothing is recorded now. e is its entry in the seen table, or nil.
func (p *recordingShard) of(k addrKey, e *seenClient, now Moment) *recordedClient {
	if p == nil || p.whole.over(now) {
		return nil
	}
	if e != nil && e.recOf == p.whole.number {
		return p.list[e.rec]
	}
	c := p.clients[k]
	if c == nil {
		if !p.whole.enter(k) {
			return nil
		}
		c = &recordedClient{rec: p.whole, index: uint32(len(p.list))} // #nosec G115 -- at most MaxMax
		p.clients[k] = c
		p.list = append(p.list, c)
	}
	if e != nil {
		e.rec, e.recOf = c.index, p.whole.number
	}
	return c
}

// enter says whether there is room for one more client, and takes it. Half of
// the room is for targets, if there are any by name: a flood of strangers is not
// to hide them.
func (r *recording) enter(k addrKey) bool {
	other := r.targets != nil && !r.targets.Contains(k.addr())
	if other && r.others.Add(1) > int64(r.room/2) {
		r.others.Add(-1)
		r.dropped.Add(1)
		return false
	}
	if r.clients.Add(1) > int64(r.room) {
		r.clients.Add(-1)
		if other {
			r.others.Add(-1)
		}
		r.dropped.Add(1)
		return false
	}
	return true
}

func (c *recordedClient) asked(retry bool, ms int64) {
	c.Queries++
	if retry {
		c.Retries++
	}
	if c.FirstMs == 0 {
		c.FirstMs = ms
	}
	c.LastMs = ms
}

func (c *recordedClient) answered(question uint64, failed bool, ms int64) {
	c.Answers++
	if failed { // SERVFAIL and REFUSED send a client on: it is not answered by them
		c.Errors++
		return
	}
	if c.FirstAnswerMs == 0 {
		c.FirstAnswerMs = ms
	}
	c.LastAnswerMs = ms
	if c.FirstDrilledMs != 0 && c.AnsweredAfterMs == 0 {
		c.AnsweredAfterMs = ms
	}
	c.asks.add(question, false, false, c.rec.since(ms), c.rec.samples)
}

func (c *recordedClient) drill(question uint64, again, resent bool, ms int64) {
	c.Drilled++
	joined, kept := c.asks.add(question, true, resent, c.rec.since(ms), c.rec.samples)
	if kept && !joined || !kept && !again {
		c.DrilledQuestions++
	}
	if c.FirstDrilledMs == 0 {
		c.FirstDrilledMs = ms
	}
	c.LastDrilledMs = ms
}

// heldAndAnswered notes that a drilled question was held until the drill ended,
// and got its answer then.
func (c *recordedClient) heldAndAnswered(question uint64, ms int64) {
	c.asks.held(question, c.rec.since(ms), c.rec.samples)
}

// since is ms after the recording began; 0 if the wall clock was put back.
func (r *recording) since(ms int64) uint32 {
	return uint32(max(0, min(ms-r.started.Ms, 1<<31))) // #nosec G115 -- bounded
}

func (r *recording) state(now Moment) protocol.RecordingState {
	return protocol.RecordingState{
		Drill:   r.drill,
		Fleet:   r.order.Fleet,
		Started: r.started.Time(),
		EndsAt:  r.started.Add(time.Duration(r.order.Seconds) * time.Second).Time(),
		Frozen:  r.over(now),
	}
}

// Record starts recording for a drill. The same order again is no change; while
// another drill is being recorded it is refused.
func (t *Table) Record(drill string, order protocol.RecordingOrder, now Moment) (protocol.RecordingState, *protocol.Problem) {
	targets, problem := checkRecording(drill, &order)
	if problem != nil {
		return protocol.RecordingState{}, problem
	}
	t.recorder.Lock()
	defer t.recorder.Unlock()
	if slices.Contains(t.forgotten, drill) {
		return protocol.RecordingState{}, protocol.NewProblem(http.StatusConflict, protocol.ReasonDrillEnded,
			"the recording of drill %q was deleted here, and a late order does not start it again: use another id", drill)
	}
	if r := t.recording.Load(); r != nil {
		switch {
		case r.drill == drill && r.order.Fleet == order.Fleet && slices.Equal(r.order.Targets, order.Targets):
			return r.state(now), nil
		case r.drill == drill:
			return protocol.RecordingState{}, protocol.NewProblem(http.StatusConflict, protocol.ReasonOtherRecording,
				"drill %q is recorded already, with another fleet or other targets: delete that recording first, or send the same order", drill)
		case !r.over(now):
			return protocol.RecordingState{}, protocol.NewProblem(http.StatusConflict, protocol.ReasonOtherRecording,
				"drill %q of fleet %q is being recorded until %s: wait for its end", r.drill, r.order.Fleet, r.state(now).EndsAt.Format(time.RFC3339))
		}
		t.stop()
	}
	t.admission.Lock()
	room := t.max
	t.admission.Unlock()
	t.recordings++
	r := &recording{
		number:  t.recordings,
		drill:   drill,
		order:   order,
		started: now,
		ends:    now.Mono + int64(time.Duration(order.Seconds)*time.Second),
		targets: targets,
		room:    room,
		samples: max(1, min(protocol.SamplesPerClient, maxSamples/room)),
	}
	for j := range r.parts {
		r.parts[j] = recordingShard{whole: r, clients: make(map[addrKey]*recordedClient)}
	}
	t.admission.Lock() // nobody is let in between the targets' choice and the switch
	defer t.admission.Unlock()
	t.lockAll()
	t.recording.Store(r)
	for j := range t.shards {
		t.shards[j].rec = &r.parts[j]
	}
	t.keep(func(k addrKey) bool { return r.isTarget(k.addr()) })
	t.unlockAll()
	return r.state(now), nil
}

// keep marks those clients as not to be replaced of whom want says so, and no
// others. The caller holds all locks.
func (t *Table) keep(want func(addrKey) bool) {
	for j := range t.shards {
		s := &t.shards[j]
		var all []uint32
		for _, o := range []order{s.kept, s.live} {
			for i := o.head; i != 0; i = t.entries[i].next {
				all = append(all, i)
			}
		}
		slices.SortStableFunc(all, func(a, b uint32) int { return cmp.Compare(t.entries[a].last, t.entries[b].last) })
		s.kept, s.live = order{}, order{}
		for _, i := range all { // the oldest first
			e := &t.entries[i]
			e.kept = want(e.key)
			s.orderOf(e).push(t.entries, i)
		}
	}
}

// stop ends what is recorded and lets its targets be replaced again. What was
// recorded stays where it is. The caller holds recorder.
func (t *Table) stop() {
	t.admission.Lock()
	defer t.admission.Unlock()
	t.lockAll()
	defer t.unlockAll()
	r := t.recording.Load()
	if r == nil || r.stopped.Swap(true) {
		return
	}
	for j := range t.shards {
		t.shards[j].rec = nil
	}
	t.keep(func(addrKey) bool { return false })
}

// Tick freezes a recording whose time is over and forgets it a while later. It
// says whether either happened. It is to be called about once a second.
func (t *Table) Tick(now Moment) (changed bool) {
	r := t.recording.Load()
	if r == nil || !r.over(now) {
		return false
	}
	t.recorder.Lock()
	defer t.recorder.Unlock()
	if t.recording.Load() != r {
		return false
	}
	if !r.stopped.Load() {
		t.stop()
		changed = true
	}
	if now.Mono >= r.ends+int64(recordingKept) {
		t.recording.Store(nil)
		changed = true
	}
	return changed
}

// forgottenKept is how many drills are remembered whose recording was deleted.
const forgottenKept = 256

// Forget ends and forgets the recording of a drill, and remembers the drill: an
// order that comes after this one must not begin a recording that keeps every
// other drill away. It says whether there was a recording.
func (t *Table) Forget(drill string) bool {
	t.recorder.Lock()
	defer t.recorder.Unlock()
	if !slices.Contains(t.forgotten, drill) {
		t.forgotten = append(t.forgotten, drill)
		t.forgotten = t.forgotten[max(0, len(t.forgotten)-forgottenKept):]
	}
	r := t.recording.Load()
	if r == nil || r.drill != drill {
		return false
	}
	t.stop()
	t.recording.Store(nil)
	return true
}

// Recording is the recording that there is, running or frozen, or nil.
func (t *Table) Recording(now Moment) *protocol.RecordingState {
	r := t.recording.Load()
	if r == nil {
		return nil
	}
	s := r.state(now)
	return &s
}

// ReadRecording is what was recorded for a drill, by address. Without samples
// they are left out; clients of whom nothing was recorded since after (Unix ms)
// are left out.
func (t *Table) ReadRecording(drill string, withSamples bool, after int64, now Moment) (*protocol.Recording, bool) {
	r := t.recording.Load()
	if r == nil || r.drill != drill {
		return nil, false
	}
	out := &protocol.Recording{
		RecordingState: r.state(now),
		NowMs:          now.Ms,
		Dropped:        r.dropped.Load(),
		Clients:        []protocol.RecordedClient{},
	}
	for j := range t.shards {
		s := &t.shards[j]
		s.mu.Lock()
		for k, c := range r.parts[j].clients {
			if max(c.LastMs, c.LastAnswerMs, c.LastDrilledMs) < after {
				continue
			}
			one := c.RecordedClient
			one.Address = k.addr().String()
			one.SampleBits = c.asks.bits
			if c.asks.until != 0 {
				one.SamplesUntilMs = r.started.Ms + int64(c.asks.until)
			}
			if withSamples {
				one.Samples = c.asks.wire(r.started.Ms)
			}
			out.Clients = append(out.Clients, one)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(out.Clients, func(a, b protocol.RecordedClient) int { return cmp.Compare(a.Address, b.Address) })
	return out, true
}

// checkRecording holds an order to its bounds. It turns the targets into a set,
// nil for everyone.
func checkRecording(drill string, o *protocol.RecordingOrder) (*bart.Lite, *protocol.Problem) {
	if problem := protocol.CheckDrillID(drill); problem != nil {
		return nil, problem
	}
	if o.Seconds < 1 || o.Seconds > protocol.MaxRecordingSeconds {
		return nil, badField("seconds", "%d is out of bounds: a recording takes 1 to %d seconds", o.Seconds, protocol.MaxRecordingSeconds)
	}
	if len(o.Targets) == 0 {
		o.Targets = nil
		return nil, nil
	}
	prefixes, problem := protocol.ParsePrefixes("targets", o.Targets)
	if problem != nil {
		return nil, problem
	}
	set := new(bart.Lite)
	for _, p := range prefixes {
		set.Insert(p)
	}
	return set, nil
}

func badField(field, format string, args ...any) *protocol.Problem {
	return protocol.NewProblem(http.StatusBadRequest, protocol.ReasonBadRequest, "%s", fmt.Sprintf(format, args...)).In(field)
}
