package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// countName is a question to the upstream about itself: how many it was asked.
const countName = "questions.authority.invalid."

// asked is what the upstream has been asked, its own count excepted.
var asked atomic.Uint64

// authority is the upstream of the servers under test, over UDP and TCP: every
// name has one address, derived from nothing but its length, and no AAAA. It is
// as small as it can be, because where misses are measured it stands on the load
// client's CPU.
func authority(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: PORT")
	}
	addr := net.JoinHostPort("127.0.0.1", args[0])
	pc, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	uc := pc.(*net.UDPConn)
	if err := uc.SetReadBuffer(4 << 20); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	go acceptStreams(ln)
	in, out := make([]byte, 4096), make([]byte, 0, 4096)
	for {
		n, from, err := uc.ReadFromUDPAddrPort(in)
		if err != nil {
			return err
		}
		if out = authorityAnswer(in[:n], out[:0]); len(out) > 0 {
			_, _ = uc.WriteToUDPAddrPort(out, from) // who does not get it asks again
		}
	}
}

func acceptStreams(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			defer c.Close()
			in, out := make([]byte, 65537), make([]byte, 2, 65537)
			for {
				if _, err := io.ReadFull(c, in[:2]); err != nil {
					return
				}
				n := int(binary.BigEndian.Uint16(in))
				if _, err := io.ReadFull(c, in[:n]); err != nil {
					return
				}
				out = authorityAnswer(in[:n], out[:2])
				binary.BigEndian.PutUint16(out, uint16(len(out)-2)) //nolint:gosec // an answer is small
				if _, err := c.Write(out); err != nil {
					return
				}
			}
		}()
	}
}

// soa of the root, for answers that have no record: held for five minutes.
var soa = func() []byte {
	rr := &dns.SOA{
		Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 300},
		Ns:  "ns.invalid.", Mbox: "hostmaster.invalid.", Serial: 1, Refresh: 300, Retry: 300, Expire: 300, Minttl: 300,
	}
	b := make([]byte, 128)
	n, err := dns.PackRR(rr, b, 0, nil, false)
	if err != nil {
		panic(err)
	}
	return b[:n]
}()

// authorityAnswer appends the answer to a question; nothing if it is none.
func authorityAnswer(q, out []byte) []byte {
	end, qtype := question(q)
	if end == 0 {
		return out
	}
	base := len(out)
	out = append(out, q[:end]...)
	h := out[base:]
	h[2], h[3] = 0x80|q[2]&1, 0x80
	clear(h[6:12])
	switch {
	case qtype == dns.TypeTXT && name(q[12:end]) == countName:
		text := strconv.FormatUint(asked.Load(), 10)
		h[7] = 1
		out = append(out, 0xc0, 12, 0, byte(dns.TypeTXT), q[end-2], q[end-1], 0, 0, 0, 0, 0, byte(len(text)+1), byte(len(text)))
		return append(out, text...)
	case qtype == dns.TypeA:
		h[7] = 1
		out = append(out, record[:]...)
	default:
		h[9] = 1
		out = append(out, soa...)
	}
	asked.Add(1)
	if binary.BigEndian.Uint16(q[10:]) > 0 { // EDNS, as good as certainly
		out[base+11] = 1
		out = append(out, 0, 0, byte(dns.TypeOPT), 0x04, 0xd0, 0, 0, 0, 0, 0, 0)
	}
	return out
}

// question is where the only question of a query ends, and its type; 0 if it has no such.
func question(q []byte) (end int, qtype uint16) {
	if len(q) < 17 || q[2]&0x80 != 0 || binary.BigEndian.Uint16(q[4:]) != 1 {
		return 0, 0
	}
	at := 12
	for at < len(q) && q[at] != 0 {
		if q[at] > 63 {
			return 0, 0
		}
		at += int(q[at]) + 1
	}
	if at+5 > len(q) {
		return 0, 0
	}
	return at + 5, binary.BigEndian.Uint16(q[at+1:])
}

func name(q []byte) string {
	s, _, err := dns.UnpackDomainName(q, 0)
	if err != nil {
		return ""
	}
	return s
}

// questionsAsked is the upstream's own count.
func questionsAsked(addr string) (uint64, error) {
	m := new(dns.Msg).SetQuestion(countName, dns.TypeTXT)
	c := &dns.Client{Timeout: 2 * time.Second}
	var last error
	for range 5 {
		r, _, err := c.Exchange(m, addr)
		if err != nil {
			last = err
			continue
		}
		if len(r.Answer) == 1 {
			if txt, ok := r.Answer[0].(*dns.TXT); ok && len(txt.Txt) == 1 {
				return strconv.ParseUint(txt.Txt[0], 10, 64)
			}
		}
		last = fmt.Errorf("it said %v", r.Answer)
	}
	return 0, fmt.Errorf("upstream's count: %w", last)
}
