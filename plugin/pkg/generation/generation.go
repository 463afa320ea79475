//go:build linux

package generation

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Version of what members say to each other. It grows when a field changes its
// meaning; a new field does not need it.
const Version = 1

// Times and sizes of the talk between members, which is local.
const (
	talkWithin = time.Second // to connect, and to be heard
	maxLine    = 256 << 10   // bytes of a state
)

// state is what a member tells the others: all of it, at each change.
type state struct {
	Version int                        `json:"v"`
	ID      string                     `json:"id"`
	Since   int64                      `json:"since"` // nanoseconds since the machine started
	Claims  bool                       `json:"claims"`
	Facts   map[string]json.RawMessage `json:"facts,omitempty"`
}

// Peer is another living member.
type Peer struct {
	ID      string
	PID     int           // as this process's PID namespace has it; 0 where it is none of that
	Since   time.Duration // when it joined, since the machine started
	Newer   bool          // it joined after this one
	Claims  bool
	Version int
	Facts   map[string]json.RawMessage
}

// Member is this process in a group.
type Member struct {
	group   string
	place   order
	uid     uint32
	ln      *net.UnixListener
	changed chan struct{}

	mu        sync.Mutex
	mine      state
	peers     map[string]*peer // by id
	strangers int
	left      bool
	wg        sync.WaitGroup
}

var groupName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$`)

// Join makes this process a member of a group, and knows all living others when it
// returns. The group's name is 1 to 40 of letters, digits, dot, dash and underscore.
// An error says that sockets cannot be had.
func Join(group string) (*Member, error) {
	if !groupName.MatchString(group) {
		return nil, fmt.Errorf("%q names no group: use 1 to 40 letters, digits, dots, dashes and underscores", group)
	}
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	m := &Member{
		group: group, place: order{now(), hex.EncodeToString(id[:])}, uid: uint32(os.Geteuid()),
		changed: make(chan struct{}, 1), peers: make(map[string]*peer),
	}
	m.mine = state{Version: Version, ID: m.place.id, Since: int64(m.place.since), Facts: map[string]json.RawMessage{}}
	// Listen first and look then: of two that join at once, one finds the other.
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: m.place.socket(group), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot meet the other generations of %s: %w", group, err)
	}
	m.ln = ln
	others, err := sockets(group)
	if err != nil {
		ln.Close()
		return nil, fmt.Errorf("cannot find the other generations of %s: %w", group, err)
	}
	m.wg.Add(1)
	go m.accept()
	var known sync.WaitGroup
	for _, name := range others {
		if place, ok := placeOf(group, name); ok && place.id != m.place.id {
			known.Go(func() { m.dial(name) })
		}
	}
	known.Wait()
	return m, nil
}

// ID is this member's, eight hex digits, new each time.
func (m *Member) ID() string { return m.place.id }

// Changed has a value when peers, their facts or the ownership may have changed
// since it was last read.
func (m *Member) Changed() <-chan struct{} { return m.changed }

// Claim puts this member in line: it is the owner while it is the newest that is.
func (m *Member) Claim() { m.update(func(s *state) { s.Claims = true }) }

// Owner says whether this member is the newest of those who claim.
func (m *Member) Owner() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mine.Claims || m.left {
		return false
	}
	for _, p := range m.peers {
		if p.said.Claims && p.place.newer(m.place) {
			return false
		}
	}
	return true
}

// Peers are the other members that live, oldest first.
func (m *Member) Peers() []Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Peer, 0, len(m.peers))
	for _, p := range m.peers {
		all = append(all, Peer{
			ID: p.place.id, PID: p.pid, Since: p.place.since, Newer: p.place.newer(m.place),
			Claims: p.said.Claims, Version: p.said.Version, Facts: maps.Clone(p.said.Facts),
		})
	}
	slices.SortFunc(all, func(a, b Peer) int {
		if (order{a.Since, a.ID}).newer(order{b.Since, b.ID}) {
			return 1
		}
		return -1
	})
	return all
}

// Strangers is how many connections were refused because they came from another
// user.
func (m *Member) Strangers() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.strangers
}

// Publish tells the others a fact: any JSON, under a name that its users agree
// on. nil takes it back. An error says that it is no JSON, or too long.
func (m *Member) Publish(name string, fact any) error {
	if fact == nil {
		m.update(func(s *state) { delete(s.Facts, name) })
		return nil
	}
	b, err := json.Marshal(fact)
	if err != nil {
		return err
	}
	if len(b) > maxLine/8 {
		return fmt.Errorf("fact %s takes %d bytes, the most is %d", name, len(b), maxLine/8)
	}
	m.update(func(s *state) { s.Facts[name] = b })
	return nil
}

// Leave ends the membership, as the end of the process would.
func (m *Member) Leave() {
	m.mu.Lock()
	if m.left {
		m.mu.Unlock()
		return
	}
	m.left = true
	m.ln.Close()
	for _, p := range m.peers {
		for c := range p.talks {
			c.Close()
		}
	}
	m.mu.Unlock()
	m.wg.Wait()
}

// update changes what this member says, and says it.
func (m *Member) update(change func(*state)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.mine)
	line := m.line()
	for _, p := range m.peers {
		for c := range p.talks {
			say(c, line)
		}
	}
	m.notify()
}

// line is this member's state as it is sent. m.mu is held.
func (m *Member) line() []byte {
	b, err := json.Marshal(m.mine)
	if err != nil {
		return nil // facts are JSON already
	}
	return append(b, '\n')
}

func (m *Member) notify() {
	select {
	case m.changed <- struct{}{}:
	default: // one is waiting
	}
}

// say sends a line; who does not take it in time is taken for gone.
func say(c *net.UnixConn, line []byte) {
	_ = c.SetWriteDeadline(time.Now().Add(talkWithin))
	if _, err := c.Write(line); err != nil {
		c.Close()
	}
}
