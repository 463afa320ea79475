package nodecache

import (
	"net"

	"github.com/miekg/dns"
)

// origin is whom a question is asked for, as the plugins behind may look at it.
type origin struct{ local, remote net.Addr }

func originOf(w dns.ResponseWriter) origin {
	return origin{local: w.LocalAddr(), remote: w.RemoteAddr()}
}

// Nobody: what is asked again before or after it expires.
var (
	nowhere         = origin{local: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, remote: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	nowhereByStream = origin{local: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, remote: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
)

// capture is the dns.ResponseWriter of the plugins behind: it keeps what is
// written, for whoever waits. It outlives the client's own.
type capture struct {
	origin
	msg *dns.Msg
}

func (c *capture) LocalAddr() net.Addr  { return c.local }
func (c *capture) RemoteAddr() net.Addr { return c.remote }

func (c *capture) WriteMsg(m *dns.Msg) error {
	c.msg = m
	return nil
}

func (c *capture) Write(b []byte) (int, error) {
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		return 0, err
	}
	c.msg = m
	return len(b), nil
}

func (c *capture) Close() error        { return nil }
func (c *capture) TsigStatus() error   { return nil }
func (c *capture) TsigTimersOnly(bool) {}
func (c *capture) Hijack()             {}
