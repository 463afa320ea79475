//go:build linux

package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Set is what is to be in force.
type Set struct {
	Port    uint16
	Probe   []netip.Addr // only what they send to themselves
	Capture []netip.Addr // everything
}

// Equal says whether both ask for the same.
func (s Set) Equal(o Set) bool {
	return s.Port == o.Port && slices.Equal(s.Probe, o.Probe) && slices.Equal(s.Capture, o.Capture)
}

// Backend has a set in force.
type Backend interface {
	// Name is how the Corefile calls it.
	Name() string
	// Where says where the rules stand, for people.
	Where() string
	// Apply puts a set in force in place of the one before, whole or not at all.
	Apply(Set) error
	// Intact says whether what Apply wrote is still there, as it was.
	Intact() (bool, error)
	// Sweep removes what generations left that do not live any more.
	Sweep(living []string) (removed []string, err error)
	// Flows counts what came for the captured addresses from elsewhere than this host,
	// since Apply, and what the host's firewall let through of it; nil: it does not.
	Flows() (map[netip.Addr]Flow, error)
	// Shared says that all generations write the same rules, so that only the owner
	// may.
	Shared() bool
	// Close ends it; what is in force goes with it, but for what keep is about.
	Close(keep bool) error
}

// Flow is packets to an address.
type Flow struct{ Arrived, Passed uint64 }

// Options of a Backend.
type Options struct {
	Link string // the names of tables and chains have it
	ID   string // of this generation
	// Keep has the rules outlive the process: by default the kernel removes them with
	// it.
	Keep     bool
	IPv4     bool
	IPv6     bool
	families []family // of iptables
}

// ErrNone is what Open's error wraps where there is neither nftables nor iptables.
var ErrNone = errors.New("neither nftables nor iptables can be used")

// Kinds of rules in the Corefile.
const (
	Auto     = "auto"
	NFTables = "nftables"
	IPTables = "iptables"
)

// Open finds what works here, by trying: kind is Auto, NFTables or IPTables.
func Open(kind string, o Options) (Backend, error) {
	var nftFailed error
	if kind != IPTables {
		var b Backend
		if b, nftFailed = openNFT(o); nftFailed == nil {
			return b, nil
		}
		if kind == NFTables {
			return nil, fmt.Errorf("nftables cannot be used (rules auto falls back on iptables): %w", nftFailed)
		}
	}
	b, err := openIPT(o)
	if err == nil {
		return b, nil
	}
	if kind == IPTables {
		return nil, err
	}
	return nil, fmt.Errorf("%w: nftables: %w; %w. Use a kernel with nf_tables, or an image with iptables; or rules none, without Service addresses", ErrNone, nftFailed, err)
}
