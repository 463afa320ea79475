//go:build !linux

package wire

import (
	"errors"

	"github.com/coredns/coredns/core/dnsserver"
)

// Group is for Linux only: elsewhere the kernel cannot be told whom to give a
// packet to, and CoreDNS's own socket answers.
type Group struct{ strays Strays }

func open(string, int, int64) (*Group, error) { return nil, errors.ErrUnsupported }

// Addr is the group's address.
func (g *Group) Addr() string { return "" }

// Strays counts queries that came in at CoreDNS's own socket instead.
func (g *Group) Strays() *Strays { return &g.strays }

// Use makes e answer.
func (g *Group) Use(Engine, *dnsserver.Server) {}

// Used says whether Use was called.
func (g *Group) Used() bool { return false }

// Serves says whether s gets what the engine leaves.
func (g *Group) Serves(*dnsserver.Server) bool { return false }

// Steered says whether packets reach the group's own sockets.
func (g *Group) Steered() bool { return false }

// Retire waits for what s still answers.
func (g *Group) Retire(*dnsserver.Server) {}

// Stats are the group's.
func (g *Group) Stats() Stats { return Stats{} }

func (g *Group) close() {}
