package wire_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/wire"

	"github.com/miekg/dns"
)

// layout is a way to listen.
type layout struct {
	name   string
	bind   string   // of the bind directive; "": the wildcard
	group  string   // address of the sockets, with PORT
	asks   []string // addresses that clients ask, with PORT
	blocks string   // server blocks, with UPSTREAM and PLUGINS
}

const oneBlock = ".:PORT {\nBIND\nPLUGINS\nforward . UPSTREAM\n}\n"

const fourBlocks = "cluster.local:PORT {\nBIND\nPLUGINS\nforward . UPSTREAM\n}\n" +
	"in-addr.arpa:PORT ip6.arpa:PORT {\nBIND\nPLUGINS\nforward . UPSTREAM\n}\n" +
	"slow.example:PORT {\nBIND\nwhoami\n}\n" +
	".:PORT {\nBIND\nPLUGINS\nforward . UPSTREAM\n}\n"

var layouts = []layout{
	{"one block, IPv4", "127.0.0.1", "127.0.0.1:PORT", []string{"127.0.0.1:PORT"}, oneBlock},
	{"one block, IPv6", "::1", "[::1]:PORT", []string{"[::1]:PORT"}, oneBlock},
	{"one block, wildcard", "", ":PORT", []string{"127.0.0.1:PORT", "127.0.0.2:PORT", "[::1]:PORT"}, oneBlock},
	{"four blocks, IPv4", "127.0.0.1", "127.0.0.1:PORT", []string{"127.0.0.1:PORT"}, fourBlocks},
	{"four blocks, IPv4 wildcard", "0.0.0.0", "0.0.0.0:PORT", []string{"127.0.0.1:PORT", "127.0.0.3:PORT"}, fourBlocks},
}

func (l *layout) corefile(up, plugins string) string {
	bind := ""
	if l.bind != "" {
		bind = "bind " + l.bind
	}
	return strings.NewReplacer("BIND", bind, "UPSTREAM", up, "PLUGINS", plugins).Replace(l.blocks)
}

const cached = "nodecache {\nsuccess 0 3600\ndenial 0 3600\nprefetch 0\n}\nprometheus 127.0.0.1:0\nerrors\n"

// TestSameAnswers sends one corpus down the wire path and, to a server that has
// log in every block and so uses CoreDNS's chain alone, down the other. Both have
// the same upstream.
func TestSameAnswers(t *testing.T) {
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			if strings.Contains(l.group, "::1") || l.bind == "" {
				if c, err := net.Listen("tcp", "[::1]:0"); err != nil {
					t.Skip("this machine has no IPv6")
				} else {
					_ = c.Close()
				}
			}
			up := newUpstream(t)
			_, fast := start(t, l.corefile(up.addr, cached+"clients\ndrill\n"))
			_, slow := start(t, l.corefile(up.addr, cached+"clients\ndrill\nrewrite name exact rewritten.invalid other.invalid\n"))
			onWire(t, strings.Replace(l.group, "PORT", fast, 1))
			if g := wire.Find(strings.Replace(l.group, "PORT", slow, 1)); g != nil {
				t.Fatal("the server to compare with has sockets of ours")
			}
			before := answered(t)
			compare(t, l.asks, fast, slow)
			if n := answered(t) - before; n < 100 {
				t.Errorf("only %d queries were answered on the wire path: the comparison is worth nothing", n)
			}
		})
	}
}

func compare(t *testing.T, asks []string, fast, slow string) {
	rng := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- repeatable
	c := newClient(t)
	bad := 0
	for i, packet := range corpus(t, rng) {
		ask := asks[i%len(asks)]
		wait := 2 * time.Second
		if !answerable(packet) {
			wait = 30 * time.Millisecond
		}
		to := func(port string) []byte { return c.ask(strings.Replace(ask, "PORT", port, 1), packet, wait) }
		// Twice: the first one may be the miss.
		to(fast)
		to(slow)
		a, b := to(fast), to(slow)
		if why := differ(a, b); why != "" {
			t.Errorf("packet %d to %s: %x\n%s\nwire:  %x\nchain: %x", i, ask, packet, why, a, b)
			if bad++; bad > 5 {
				return
			}
		}
	}
}

// answerable says whether a packet gets an answer at all.
func answerable(b []byte) bool { return len(b) >= 12 && b[2]&0x80 == 0 }

// differ says how two answers differ in what may not. What may: how names are
// compressed, and TTLs by the seconds between the two caches.
func differ(a, b []byte) string {
	if a == nil || b == nil {
		if a == nil && b == nil {
			return ""
		}
		return "one is silent"
	}
	am, bm := new(dns.Msg), new(dns.Msg)
	aerr, berr := am.Unpack(a), bm.Unpack(b)
	if aerr != nil || berr != nil {
		if bytes.Equal(a, b) {
			return ""
		}
		return fmt.Sprintf("not readable: %v, %v", aerr, berr)
	}
	as, bs := records(am), records(bm)
	for i := range min(len(as), len(bs)) {
		ah, bh := as[i].Header(), bs[i].Header()
		if ah.Rrtype == dns.TypeOPT || bh.Rrtype == dns.TypeOPT {
			continue
		}
		if d := int(ah.Ttl) - int(bh.Ttl); d < -2 || d > 2 {
			return fmt.Sprintf("TTLs differ: %d and %d", ah.Ttl, bh.Ttl)
		}
		bh.Ttl = ah.Ttl
	}
	am.Compress, bm.Compress = false, false
	ap, aerr := am.Pack()
	bp, berr := bm.Pack()
	if aerr != nil || berr != nil {
		return fmt.Sprintf("not packable: %v, %v", aerr, berr)
	}
	if !bytes.Equal(ap, bp) {
		return fmt.Sprintf("they say\n%s\nand\n%s", am, bm)
	}
	return ""
}

func records(m *dns.Msg) []dns.RR { return slices.Concat(m.Answer, m.Ns, m.Extra) }

// corpus is what clients, broken clients and attackers send.
func corpus(t *testing.T, rng *rand.Rand) [][]byte {
	var out [][]byte
	add := func(b []byte) { out = append(out, b) }
	names := []string{"a.example.", "WwW.eXaMple.", "many3.example.", "many200.example.", "many12.cluster.local.", "nx1.example.", "nx2.svc.cluster.local.",
		"cname.example.", "ad.example.", "ede.example.", "zero.example.", "servfail.example.", "refused.example.", ".", "1.0.0.127.in-addr.arpa.",
		"x.slow.example.", `a\.b.example.`, `\000\255.example.`, `\007cluster.local.`, "many2.a\\007cluster.local.", strings.Repeat("a", 63) + ".example.",
		strings.Repeat("abcdefg.", 30) + "example."}
	types := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeSRV, dns.TypeMX, dns.TypeDS, dns.TypeHTTPS, dns.TypePTR, dns.TypeSOA, 65280, 0, dns.TypeANY, dns.TypeAXFR, dns.TypeOPT}
	for _, name := range names {
		for _, qtype := range types {
			m := query(name, qtype)
			m.Id = uint16(rng.Uint32())
			add(pack(t, m))
		}
	}
	// EDNS: sizes, DO, versions, options, flags, twice.
	for _, name := range names[:12] {
		for _, size := range []uint16{0, 100, 512, 700, 1232, 4096, 65535} {
			for _, do := range []bool{false, true} {
				m := query(name, dns.TypeA)
				m.SetEdns0(size, do)
				add(pack(t, m))
			}
		}
	}
	edns := func(change func(*dns.Msg, *dns.OPT)) {
		for _, name := range []string{"a.example.", "ede.example.", "nx1.example."} {
			m := query(name, dns.TypeA)
			m.SetEdns0(1232, false)
			change(m, m.IsEdns0())
			if b, err := m.Pack(); err == nil {
				add(b)
			}
		}
	}
	for _, version := range []uint8{1, 2, 255} {
		edns(func(_ *dns.Msg, o *dns.OPT) { o.SetVersion(version) })
	}
	for z := range 16 {
		edns(func(_ *dns.Msg, o *dns.OPT) { o.SetZ(1 << z & 0x7fff) })
	}
	for _, code := range []uint16{1, 2, 3, 5, 8, 9, 10, 11, 12, 14, 15, 16, 65001, 65313} {
		for _, n := range []int{0, 1, 2, 4, 8, 24, 41} {
			edns(func(_ *dns.Msg, o *dns.OPT) {
				o.Option = append(o.Option, &dns.EDNS0_LOCAL{Code: code, Data: make([]byte, n)})
			})
		}
	}
	edns(func(m *dns.Msg, o *dns.OPT) { m.Extra = append(m.Extra, o) })
	edns(func(_ *dns.Msg, o *dns.OPT) { o.SetExtendedRcode(16) })
	edns(func(_ *dns.Msg, o *dns.OPT) { o.Hdr.Name = "x." })
	edns(func(m *dns.Msg, _ *dns.OPT) { m.Extra = append(m.Extra, rr("x.example. 1 IN A 192.0.2.1")) })
	// Classes, opcodes, every header bit, counts.
	plain := pack(t, query("a.example.", dns.TypeA))
	for _, class := range []uint16{0, 2, 3, 4, 254, 255, 65535} {
		b := slices.Clone(plain)
		binary.BigEndian.PutUint16(b[len(b)-2:], class)
		add(b)
	}
	for bits := range 16 {
		b := slices.Clone(plain)
		binary.BigEndian.PutUint16(b[2:], binary.BigEndian.Uint16(b[2:])^(1<<bits))
		add(b)
	}
	for opcode := range 16 {
		b := slices.Clone(plain)
		b[2] = b[2]&^0x78 | byte(opcode<<3)
		add(b)
	}
	for at := 4; at < 12; at++ {
		for _, v := range []byte{0, 1, 2, 3, 255} {
			b := slices.Clone(plain)
			b[at] = v
			add(b)
		}
	}
	// Several questions, pointers in the question, names without end.
	two := query("a.example.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	add(pack(t, two))
	head := plain[:12]
	tail := []byte{0, 1, 0, 1}
	for _, name := range [][]byte{{0xc0, 12}, {0xc0, 0}, {1, 'a', 0xc0, 12}, {0x40, 0}, {0x80, 0}, {63}, {5, 'a'}, bytes.Repeat([]byte{1, 'a'}, 126), append(bytes.Repeat([]byte{1, 'a'}, 127), 0), append(bytes.Repeat([]byte{1, 'a'}, 128), 0), append(bytes.Repeat([]byte{63}, 300), 0)} {
		add(slices.Concat(head, name, tail))
	}
	// Lengths: the same question cut and with more behind it.
	for n := range len(plain) {
		add(plain[:n])
	}
	withOPT := query("a.example.", dns.TypeA)
	withOPT.SetEdns0(1232, true)
	o := pack(t, withOPT)
	for n := len(plain); n < len(o); n++ {
		add(o[:n])
	}
	for _, n := range []int{1, 2, 11, 100, 511 - len(plain), 512 - len(plain), 513 - len(plain), 1400, 9000, 65507 - len(plain)} {
		add(slices.Concat(plain, make([]byte, n)))
		add(slices.Concat(o, make([]byte, n)))
	}
	// Padded by a cookie to just below, at and above what is read.
	for n := 511 - len(o) - 6; n < 515-len(o); n++ {
		edns(func(_ *dns.Msg, o *dns.OPT) {
			o.Option = append(o.Option, &dns.EDNS0_LOCAL{Code: 10, Data: make([]byte, n)})
		})
	}
	// Mangled ones.
	for range 600 {
		b := slices.Clone(out[rng.IntN(len(out))])
		if len(b) > 600 {
			continue
		}
		for range 1 + rng.IntN(3) {
			if len(b) > 0 {
				b[rng.IntN(len(b))] = byte(rng.Uint32())
			}
		}
		add(b)
	}
	return out
}
