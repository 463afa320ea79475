// Package upstream is a DNS server that misbehaves as it is told, for tests: it
// drops, delays, loses, answers SERVFAIL or REFUSED, truncates, closes
// connections, lies about IDs and questions, answers from another address, sends
// garbage, changes its answers, and has a limit to what it can serve.
//
// What it does is a script, a rule a line (see Parse): whom it is about, and what
// to do. It can be replaced at any moment, and the server counts and remembers
// what it was asked. In a process it is a Server; on its own it is the command in
// cmd.
//
// It is honest where the script says nothing: every name has the address
// 192.0.2.1, and is a zone.
package upstream

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Server.
type Options struct {
	// Listen is where, for UDP and TCP: IP:PORT. The port 0 is a free one. "":
	// 127.0.0.1:0.
	Listen string
	// TLS listens for DNS over TLS (RFC 7858) instead, and for nothing else.
	TLS *tls.Config
	// Script is what it does.
	Script string
}

// Server is a DNS server that misbehaves.
type Server struct {
	options Options
	addr    netip.AddrPort
	script  atomic.Pointer[Script]
	log     log

	mu    sync.Mutex
	udp   *net.UDPConn
	other *net.UDPConn // answers from another port come from here
	tcp   net.Listener
	conns map[net.Conn]bool
	up    bool
	wg    sync.WaitGroup
	done  chan struct{} // closed by Down
}

// TB is what Run needs of a test.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Run starts a server that ends with the test.
func Run(t TB, script string) *Server { return RunWith(t, Options{Script: script}) }

// RunWith is Run with options.
func RunWith(t TB, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatalf("upstream: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start starts a server.
func Start(o Options) (*Server, error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	addr, err := netip.ParseAddrPort(o.Listen)
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, addr: addr}
	if err := s.Script(o.Script); err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ { // a port that is free for UDP may be taken for TCP
		if err = s.Up(); err == nil || addr.Port() != 0 || tries == 20 {
			break
		}
		s.addr = addr
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Addr is where it listens: IP:PORT.
func (s *Server) Addr() string { return s.addr.String() }

// Script replaces what it does, at once.
func (s *Server) Script(text string) error {
	script, err := Parse(text)
	if err != nil {
		return err
	}
	s.script.Store(script)
	return nil
}

// Set is Script for tests: a script that cannot be read is a mistake of the test.
func (s *Server) Set(text string) {
	if err := s.Script(text); err != nil {
		panic(err)
	}
}

// Up listens again after Down, at the same address.
func (s *Server) Up() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up {
		return nil
	}
	if err := s.listen(); err != nil {
		s.hangUp()
		return err
	}
	s.up = true
	return nil
}

func (s *Server) listen() (err error) {
	s.done = make(chan struct{})
	s.conns = make(map[net.Conn]bool)
	if s.options.TLS == nil {
		if s.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(s.addr)); err != nil {
			return err
		}
		_ = s.udp.SetReadBuffer(4 << 20) // a flood is to be seen, not lost
		s.addr = s.udp.LocalAddr().(*net.UDPAddr).AddrPort()
		s.addr = netip.AddrPortFrom(s.addr.Addr().Unmap(), s.addr.Port())
		if s.other, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.addr.Addr(), 0))); err != nil {
			return err
		}
	}
	if s.tcp, err = net.Listen("tcp", s.addr.String()); err != nil {
		return err
	}
	if s.options.TLS != nil {
		s.addr = s.tcp.Addr().(*net.TCPAddr).AddrPort()
		s.addr = netip.AddrPortFrom(s.addr.Addr().Unmap(), s.addr.Port())
		s.tcp = tls.NewListener(s.tcp, s.options.TLS)
	}
	if s.udp != nil {
		udp, other, done := s.udp, s.other, s.done
		s.wg.Go(func() { s.readUDP(udp, other, done) })
	}
	tcp, done := s.tcp, s.done
	s.wg.Go(func() { s.accept(tcp, done) })
	return nil
}

// Down stops listening and closes all connections, as a process that died: what
// is sent to it is refused by the system.
func (s *Server) Down() {
	s.mu.Lock()
	s.hangUp()
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) hangUp() {
	if s.done != nil {
		close(s.done)
		s.done = nil
	}
	for _, c := range []io.Closer{s.udp, s.other, s.tcp} {
		switch c := c.(type) {
		case *net.UDPConn:
			if c != nil {
				_ = c.Close()
			}
		case net.Listener:
			_ = c.Close()
		}
	}
	s.udp, s.other, s.tcp = nil, nil, nil
	for c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
	s.up = false
}

// Close ends the server.
func (s *Server) Close() { s.Down() }

func (s *Server) readUDP(udp, other *net.UDPConn, done chan struct{}) {
	buf := make([]byte, 65535)
	for {
		n, from, err := udp.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // an ICMP error of an earlier answer
		}
		packet := append([]byte(nil), buf[:n]...)
		s.wg.Go(func() {
			s.serve(packet, "udp", from, done, func(out []byte, elsewhere bool) {
				via := udp
				if elsewhere {
					via = other
				}
				_, _ = via.WriteToUDPAddrPort(out, from) // the asker went away
			}, nil)
		})
	}
}

func (s *Server) accept(tcp net.Listener, done chan struct{}) {
	for {
		c, err := tcp.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(time.Millisecond)
			continue
		}
		s.mu.Lock()
		if s.conns == nil {
			s.mu.Unlock()
			_ = c.Close()
			return
		}
		s.conns[c] = true
		s.mu.Unlock()
		s.log.connection()
		s.wg.Go(func() {
			s.readTCP(c, done)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			_ = c.Close()
		})
	}
}

func (s *Server) readTCP(c net.Conn, done chan struct{}) {
	over := "tcp"
	if s.options.TLS != nil {
		over = "tls"
	}
	from, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	var write sync.Mutex
	for {
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, packet); err != nil {
			return
		}
		s.wg.Go(func() {
			s.serve(packet, over, from, done, func(out []byte, _ bool) {
				framed := binary.BigEndian.AppendUint16(make([]byte, 0, len(out)+2), uint16(len(out)))
				write.Lock()
				defer write.Unlock()
				_, _ = c.Write(append(framed, out...)) // the asker went away
			}, func() { _ = c.Close() })
		})
	}
}
