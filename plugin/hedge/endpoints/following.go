package endpoints

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// locateAgain is when a zone that could not be found out is asked for again,
	// and locateLater when a node without one may have got one: of nodes there are
	// thousands.
	locateAgain = 10 * time.Second
	locateLater = time.Minute
)

// following is a Service while it is followed. Slices and the node's zone come
// each in a goroutine of its own.
type following struct {
	service *Service
	hinted  chan struct{} // wakes locate: there are hints for zones, and ours is not known

	mu sync.Mutex
	changes
	slices []Slice
	zone   string
	known  bool            // slices are
	been   map[string]bool // addresses that were ready, or there from the beginning
}

// changed takes over what the Service's slices are now.
func (f *following) changed(slices []Slice, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failed(err)
		return
	}
	f.start(slices)
	f.slices, f.known = slices, true
	f.say()
	if f.zone == "" && forZones(slices) {
		select {
		case f.hinted <- struct{}{}:
		default:
		}
	}
}

// start marks who has just come and has not been ready yet. Of those that are there
// when we come ourselves, nobody knows.
func (f *following) start(slices []Slice) {
	been := make(map[string]bool)
	for _, slice := range slices {
		for i := range slice.Servers {
			server := &slice.Servers[i]
			server.Starting = true
			for _, a := range server.Addresses {
				been[a] = server.Ready || server.Serving || !f.known || f.been[a]
				server.Starting = server.Starting && !been[a]
			}
		}
	}
	f.been = been
}

// say tells what is known now.
func (f *following) say() {
	list, err := Of(f.slices, f.service.port(), f.service.Node, f.zone)
	if err != nil {
		f.failed(err)
		return
	}
	f.tell(list)
}

func (f *following) failed(err error) {
	f.fail(fmt.Errorf("service %s.%s: %w", f.service.Name, f.service.Namespace, err))
}

// locate finds out which zone the node is in, once it matters. A start does not
// wait for it, and it is asked for until it is known: else a server that started
// without the API server would never know what is near.
func (f *following) locate(ctx context.Context) {
	select {
	case <-f.hinted:
	case <-ctx.Done():
		return
	}
	again, later := locateAgain, locateLater
	if f.service.again != 0 {
		again, later = f.service.again, f.service.later
	}
	for said := ""; ; {
		zone, err := f.service.Watcher.Zone(ctx, f.service.Node)
		if ctx.Err() != nil {
			return
		}
		wait := later
		if err != nil {
			wait = again
			if why := err.Error(); why != said {
				said = why
				f.mu.Lock()
				f.failed(fmt.Errorf("the zone of node %s is not known, so no endpoint is nearer than others: %w", f.service.Node, err))
				f.mu.Unlock()
			}
		}
		if zone != "" {
			f.mu.Lock()
			f.zone = zone
			if f.known {
				f.say()
			}
			f.mu.Unlock()
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// forZones says whether slices have hints for zones.
func forZones(slices []Slice) bool {
	for _, slice := range slices {
		for _, server := range slice.Servers {
			if len(server.ForZones) > 0 {
				return true
			}
		}
	}
	return false
}
