package endpoints

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// Watcher is what is needed of Kubernetes. It is an interface so that nothing
// but its implementation knows Kubernetes' own types, and tests need none.
type Watcher interface {
	// Watch calls changed with all EndpointSlices of a Service whenever they change,
	// and with an error when they cannot be read, until the context is done.
	Watch(ctx context.Context, namespace, service string, changed func([]Slice, error))
	// Zone is the zone of a node (topology.kubernetes.io/zone).
	Zone(ctx context.Context, node string) (string, error)
}

// Slice is what matters of an EndpointSlice (discovery.k8s.io/v1).
type Slice struct {
	Ports   []Port
	Servers []Server
}

// Port is a port of all endpoints of a slice.
type Port struct {
	Name string
	Port uint16
	UDP  bool
}

// Server is one endpoint.
type Server struct {
	Addresses   []string
	Ready       bool
	Serving     bool     // it says that it is well, though it may be ending
	Terminating bool     // it is ending
	Starting    bool     // it has not been ready since it came
	ForNodes    []string // hints: for whom it is meant
	ForZones    []string
}

// Tiers of a Service's endpoints.
const (
	TierNode    = iota // meant for this node
	TierZone           // meant for this zone
	TierAnybody        // all others, and all where there are no hints
)

// Service are the endpoints of a Kubernetes Service.
type Service struct {
	Namespace, Name string
	// Port is a number, or a port's name. "": "dns".
	Port string
	// Node and Zone are where we are. Zone "": asked of Kubernetes.
	Node, Zone string
	Watcher    Watcher

	again, later time.Duration // in tests, in place of locateAgain and locateLater
}

// String implements Source.
func (s *Service) String() string {
	return fmt.Sprintf("kubernetes %s.%s:%s (node %q, zone %q)", s.Name, s.Namespace, s.port(), s.Node, s.Zone)
}

func (s *Service) port() string {
	if s.Port == "" {
		return "dns"
	}
	return s.Port
}

// Run implements Source.
func (s *Service) Run(ctx context.Context, found func([]Endpoint, error)) {
	f := &following{service: s, changes: changes{found: found}, zone: s.Zone, hinted: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	defer wg.Wait()
	if s.Zone == "" && s.Node != "" {
		wg.Go(func() { f.locate(ctx) })
	}
	s.Watcher.Watch(ctx, s.Namespace, s.Name, f.changed)
}

// Of are the endpoints that slices name: the ready ones. With under half of them
// ready, all of them: then readiness says more about its source than about them.
// None at all is an error: the last ones known are better.
//
// Those that are ending or have just come are not counted: that they are not ready
// is meant. The former are asked as long as they serve, if under half of the others
// are ready; the latter if there is nobody else.
//
// Hints count only where every endpoint has some, as for kube-proxy: a slice
// that is written anew has none for a moment.
func Of(slices []Slice, port, node, zone string) ([]Endpoint, error) {
	type candidate struct {
		Endpoint
		*Server
	}
	var all []candidate
	staying, ready, hintless, portless := 0, 0, 0, false
	for _, slice := range slices {
		number, ok := portOf(slice.Ports, port)
		if !ok {
			portless = portless || len(slice.Servers) > 0 // a Service without endpoints has a slice without ports
			continue
		}
		for i := range slice.Servers {
			server := &slice.Servers[i]
			tier := TierAnybody
			switch {
			case contains(server.ForNodes, node):
				tier = TierNode
			case contains(server.ForZones, zone):
				tier = TierZone
			}
			for _, address := range server.Addresses {
				a, err := netip.ParseAddr(address)
				if err != nil {
					continue // a slice of names
				}
				all = append(all, candidate{Endpoint{netip.AddrPortFrom(a.Unmap(), number), tier}, server})
				if !server.stays() {
					continue
				}
				staying++
				if server.Ready {
					ready++
				}
				if len(server.ForNodes)+len(server.ForZones) == 0 {
					hintless++
				}
			}
		}
	}
	switch {
	case len(all) == 0 && portless:
		return nil, fmt.Errorf("no endpoint has a port %q for UDP: name the port as the Service does, or give its target's number", port)
	case len(all) == 0:
		return nil, fmt.Errorf("it has no endpoints")
	}
	pick := func(fits func(*Server) bool) (list []Endpoint) {
		for _, c := range all {
			if !fits(c.Server) {
				continue
			}
			if hintless > 0 {
				c.Tier = TierAnybody
			}
			list = append(list, c.Endpoint)
		}
		return list
	}
	var list []Endpoint
	if 2*ready >= staying {
		list = pick(func(s *Server) bool { return s.stays() && s.Ready })
	}
	if len(list) == 0 {
		list = pick(func(s *Server) bool { return s.stays() || s.Terminating && s.Serving })
	}
	if len(list) == 0 {
		list = pick(func(s *Server) bool { return !s.Terminating })
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("it has no endpoints but those that have ended")
	}
	return sortAll(list), nil
}

// stays says that a server's readiness is to be counted.
func (s *Server) stays() bool { return !s.Terminating && !s.Starting }

// portOf is the port of that name or number. A number that no slice has is the
// Service's own, where there is but one for UDP.
func portOf(ports []Port, want string) (uint16, bool) {
	number, err := strconv.ParseUint(want, 10, 16)
	var udp []uint16
	for _, p := range ports {
		if !p.UDP {
			continue
		}
		if p.Name == want || err == nil && uint64(p.Port) == number {
			return p.Port, true
		}
		udp = append(udp, p.Port)
	}
	if err == nil && len(udp) == 1 {
		return udp[0], true
	}
	return 0, false
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if s != "" && l == s {
			return true
		}
	}
	return false
}
