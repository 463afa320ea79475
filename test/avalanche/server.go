package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// tally is what a server says of a second.
type tally struct {
	Unix     int64 `json:"unix"` // the second's end
	Arrived  int64 `json:"arrived"`
	Answered int64 `json:"answered"`
	Dropped  int64 `json:"dropped"`
}

// job is a query that waits, and how its answer goes out.
type job struct {
	query []byte
	send  func(answer []byte)
}

// modelled is a DNS server with a limit. Each query takes it 1/rate of a second,
// one after the other; so many wait, and what comes on top is dropped. A real
// one has its limit where its CPU ends (a pod's CPU limit, often) and drops
// where its socket's buffer ends; the queue in between makes the same delay. It
// is kinder than a real one in that a dropped query costs it nothing.
type modelled struct {
	service                    time.Duration // 0: no limit
	waiting                    chan job
	arrived, answered, dropped atomic.Int64
}

// serve is the part of a server: on UDP and TCP, until it is ended.
func serve(args []string) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	addr := flags.String("addr", "", "address and port")
	rate := flags.Float64("rate", 0, "queries a second; 0: any")
	queue := flags.Int("queue", 256, "queries that wait")
	if err := flags.Parse(args); err != nil {
		return err
	}
	m := &modelled{waiting: make(chan job, *queue)}
	if *rate > 0 {
		m.service = time.Duration(float64(time.Second) / *rate)
	}
	pc, err := net.ListenPacket("udp", *addr)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- m.packets(pc.(*net.UDPConn)) }()
	go func() { failed <- m.connections(ln) }()
	go m.work()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	said := json.NewEncoder(os.Stdout)
	var last tally
	for {
		select {
		case err := <-failed:
			return err
		case now := <-tick.C:
			all := tally{Arrived: m.arrived.Load(), Answered: m.answered.Load(), Dropped: m.dropped.Load()}
			one := tally{Unix: now.Unix(), Arrived: all.Arrived - last.Arrived, Answered: all.Answered - last.Answered, Dropped: all.Dropped - last.Dropped}
			last = all
			if err := said.Encode(one); err != nil {
				return err
			}
		}
	}
}

// work answers one query after the other, each when its time has come. The clock
// that counts is the one that service times add up to: a late wake-up is made
// good, so the rate is as it should be.
func (m *modelled) work() {
	free := time.Now()
	var out [4096]byte
	for j := range m.waiting {
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(m.service)
		if wait := time.Until(free); wait > 0 {
			time.Sleep(wait)
		}
		if answer := zoneAnswer(j.query, out[:0]); len(answer) > 0 {
			j.send(answer)
			m.answered.Add(1)
		}
	}
}

func (m *modelled) packets(c *net.UDPConn) error {
	buf := make([]byte, 4096)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			return err
		}
		m.arrived.Add(1)
		j := job{query: append([]byte(nil), buf[:n]...), send: func(answer []byte) {
			_, _ = c.WriteToUDPAddrPort(answer, from) // who does not get it asks again
		}}
		select {
		case m.waiting <- j:
		default:
			m.dropped.Add(1)
		}
	}
}

func (m *modelled) connections(ln net.Listener) error {
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go m.connection(c)
	}
}

// connection takes what its peer sends as fast as the queue does: TCP has no
// need to drop.
func (m *modelled) connection(c net.Conn) {
	defer c.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		m.arrived.Add(1)
		m.waiting <- job{query: query, send: func(answer []byte) {
			framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...) //nolint:gosec // an answer is small
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = c.Write(framed) // who has gone needs no answer
		}}
	}
}

// readTallies are a server's seconds, by the second's end.
func readTallies(path string) (map[int64]tally, error) {
	f, err := os.Open(path) //nolint:gosec // the run's own folder
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[int64]tally{}
	for d := json.NewDecoder(f); ; {
		var t tally
		if err := d.Decode(&t); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return all, nil // it was ended in the middle of a line
		} else if err != nil {
			return nil, err
		}
		all[t.Unix] = t
	}
}
