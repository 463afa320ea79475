//go:build linux

package generation

import (
	"bufio"
	"encoding/json"
	"net"
	"time"
)

// peer is another member, as long as one connection to it is open: two that
// joined at the same moment have called each other.
type peer struct {
	place order
	pid   int
	said  state
	talks map[*net.UnixConn]bool
}

// accept takes the connections of those who came later.
func (m *Member) accept() {
	defer m.wg.Done()
	for {
		c, err := m.ln.AcceptUnix()
		if err != nil {
			return // the listener is closed
		}
		m.wg.Go(func() { m.talk(c, nil) })
	}
}

// dial connects to one that is there already, and returns when it has been heard
// or will not be.
func (m *Member) dial(name string) {
	conn, err := net.DialTimeout("unix", name, talkWithin)
	if err != nil {
		return // it ended meanwhile
	}
	c, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return
	}
	heard := make(chan struct{})
	m.wg.Go(func() { m.talk(c, heard) })
	select {
	case <-heard:
	case <-time.After(talkWithin):
	}
}

// talk tells and hears until the connection ends. heard is closed after the first
// line, and when there is none.
func (m *Member) talk(c *net.UnixConn, heard chan struct{}) {
	defer c.Close()
	once := func() {
		if heard != nil {
			close(heard)
			heard = nil
		}
	}
	defer once()
	cred, err := peerCred(c)
	if err != nil {
		return
	}
	if cred.Uid != m.uid {
		m.mu.Lock()
		m.strangers++
		m.mu.Unlock()
		return
	}
	m.mu.Lock()
	if m.left {
		m.mu.Unlock()
		return
	}
	say(c, m.line())
	m.mu.Unlock()

	var p *peer
	defer func() { m.hangUp(p, c) }()
	_ = c.SetReadDeadline(time.Now().Add(talkWithin)) // for the first line; then it may be silent
	lines := bufio.NewScanner(c)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	for lines.Scan() {
		var s state
		if json.Unmarshal(lines.Bytes(), &s) != nil || s.ID == "" || s.ID == m.place.id {
			return
		}
		if p == nil {
			_ = c.SetReadDeadline(time.Time{})
		}
		if p = m.hear(c, int(cred.Pid), s); p == nil {
			return
		}
		once()
	}
}

// hear takes note of what a peer says. nil: this member has left.
func (m *Member) hear(c *net.UnixConn, pid int, s state) *peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return nil
	}
	p := m.peers[s.ID]
	if p == nil {
		p = &peer{talks: make(map[*net.UnixConn]bool)}
		m.peers[s.ID] = p
	}
	if !p.talks[c] {
		p.talks[c] = true
		// What was said before it was on the list it may not have heard.
		say(c, m.line())
	}
	p.place, p.pid, p.said = order{time.Duration(s.Since), s.ID}, pid, s
	m.notify()
	return p
}

func (m *Member) hangUp(p *peer, c *net.UnixConn) {
	if p == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(p.talks, c)
	if len(p.talks) == 0 && m.peers[p.place.id] == p {
		delete(m.peers, p.place.id)
	}
	m.notify()
}
