package clients

import (
	"net/netip"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/plugin/clients/tenure"
	"firebreakdns.io/firebreak/plugin/control"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/steady"
)

// Process is what all server blocks and all Corefiles of this process share.
type Process struct {
	*Table
	mark    mark
	busiest busiest
	names   atomic.Pointer[names]  // nil: no names
	path    atomic.Pointer[string] // of the saved table; nil: it is not saved
	stop    chan struct{}
	stopped chan struct{}
}

// current is the process's state while a Corefile holds it.
var current atomic.Pointer[Process]

// Current is the process's state, or nil if no running Corefile has the plugin.
// It stays the same across reloads.
func Current() *Process { return current.Load() }

// holders are the Corefiles that want the state.
var holders = tenure.New(apply)

// apply makes the state what the live Corefiles want, oldest first. While there
// are two of them the table has room for the larger one.
func apply(live []*options) {
	p := current.Load()
	if len(live) == 0 {
		if p != nil {
			current.Store(nil)
			p.close()
		}
		return
	}
	size := MinMax
	for _, o := range live {
		size = max(size, o.size())
	}
	o := live[len(live)-1]
	if p == nil {
		p = newProcess(size)
		if o.file != "" {
			restore(p.Table, o.file)
		}
		go p.keepHouse(time.Second)
		defer current.Store(p)
	}
	p.Resize(size)
	p.SetInfrastructure(o.infrastructure)
	p.busiest.setTop(o.topCount())
	p.path.Store(nil)
	if o.file != "" {
		p.path.Store(&o.file)
	}
	if was := p.names.Load(); o.names == "" {
		p.names.Store(nil)
	} else if was == nil || was.path != o.names {
		n := &names{path: o.names}
		n.refresh()
		p.names.Store(n)
	}
}

func newProcess(size int) *Process {
	p := &Process{Table: NewTable(size), mark: newMark(), stop: make(chan struct{}), stopped: make(chan struct{})}
	p.busiest.table = p.Table
	return p
}

// Name is the client's name, or "" if it has none.
func (p *Process) Name(a netip.Addr) string { return p.names.Load().name(a) }

// keepHouse does what time asks for, until the state is closed.
func (p *Process) keepHouse(every time.Duration) {
	defer close(p.stopped)
	tick := time.NewTicker(every)
	defer tick.Stop()
	lastSave := Now()
	for n := 0; ; n++ {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		now := Now()
		if p.Tick(now) {
			control.Changed()
		}
		p.followClock(now)
		if known := p.names.Load(); known != nil && n%5 == 0 {
			known.refresh()
		}
		if now.Mono-lastSave.Mono >= int64(saveEvery) {
			lastSave = now
			p.save()
		}
	}
}

// followClock lets the steady clock follow the system's, but not in the middle of
// a recording: what it tells would fall apart.
func (p *Process) followClock(now Moment) {
	if r := p.Recording(now); r != nil && !r.Frozen {
		return
	}
	if by := steady.Follow(); by != 0 {
		log.Infof("The system's clock was set: by %s", by)
		control.Changed()
	}
}

func (p *Process) save() {
	path := p.path.Load()
	if path == nil {
		return
	}
	if err := save(p.Table, *path); err != nil {
		log.Warningf("Cannot save the table of clients: %v", err)
	}
}

func (p *Process) close() {
	close(p.stop)
	<-p.stopped
	p.save()
}
