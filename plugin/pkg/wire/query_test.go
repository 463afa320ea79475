package wire

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"pgregory.net/rapid"
)

func packed(t testing.TB, name string, qtype uint16, change func(*dns.Msg)) []byte {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, qtype)
	m.Id = 4711
	if change != nil {
		change(m)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func opt(size uint16, do bool, options ...dns.EDNS0) func(*dns.Msg) {
	return func(m *dns.Msg) {
		m.SetEdns0(size, do)
		m.IsEdns0().Option = options
	}
}

func TestParse(t *testing.T) {
	var q Query
	b := packed(t, "WwW.Example.ORG.", dns.TypeAAAA, func(m *dns.Msg) {
		opt(700, true, &dns.EDNS0_COOKIE{Code: 10, Cookie: "0011223344556677"})(m)
		m.CheckingDisabled, m.AuthenticatedData = true, true
	})
	if !q.Parse(b) {
		t.Fatal("refused")
	}
	if q.ID != 4711 || q.Type != dns.TypeAAAA || string(q.Name()) != "\x03www\x07example\x03org\x00" || !q.EDNS || !q.DO || q.Size != 700 || !q.CD || !q.AD || q.Labels() != 3 {
		t.Errorf("%+v", q)
	}
	if string(q.Suffix(1)) != "\x07example\x03org\x00" || string(q.Suffix(3)) != "\x00" {
		t.Errorf("suffixes: %q %q", q.Suffix(1), q.Suffix(3))
	}
	if q.Limit() != 700 || q.End != 12+17+4 {
		t.Errorf("limit %d, end %d", q.Limit(), q.End)
	}
	if !q.Parse(packed(t, ".", dns.TypeNS, nil)) || q.EDNS || q.Size != 0 || q.Limit() != 512 || len(q.Name()) != 1 {
		t.Errorf("root: %+v", q)
	}
}

func TestParseRefuses(t *testing.T) {
	plain := packed(t, "a.example.", dns.TypeA, nil)
	withOPT := packed(t, "a.example.", dns.TypeA, opt(1232, false))
	edit := func(b []byte, at int, v byte) []byte {
		b = bytes.Clone(b)
		b[at] = v
		return b
	}
	end := len(plain)
	for name, b := range map[string][]byte{
		"an answer":           edit(plain, 2, 0x81),
		"an opcode":           edit(plain, 2, 0x11),
		"AA":                  edit(plain, 2, 0x05),
		"TC":                  edit(plain, 2, 0x03),
		"no RD":               edit(plain, 2, 0),
		"RA":                  edit(plain, 3, 0x80),
		"Z":                   edit(plain, 3, 0x40),
		"a response code":     edit(plain, 3, 1),
		"no question":         edit(plain, 5, 0),
		"two questions":       edit(plain, 5, 2),
		"an answer record":    edit(plain, 7, 1),
		"an authority":        edit(plain, 9, 1),
		"two additionals":     edit(plain, 11, 2),
		"a missing OPT":       edit(plain, 11, 1),
		"class CH":            edit(plain, end-1, 3),
		"type 0":              edit(plain, end-3, 0),
		"type OPT":            edit(plain, end-3, 41),
		"type ANY":            edit(plain, end-3, 255),
		"more behind it":      append(bytes.Clone(plain), 0),
		"more behind the OPT": append(bytes.Clone(withOPT), 0),
		"a pointer":           edit(plain, 12, 0xc0),
		"a long label":        edit(plain, 12, 64),
		"no end of the name":  plain[:end-5],
		"no class":            plain[:end-1],
		"a header":            plain[:12],
		"nothing":             nil,
		"OPT below a name":    edit(withOPT, end, 1),
		"another record":      edit(withOPT, end+2, 1),
		"an extended rcode":   edit(withOPT, end+5, 1),
		"EDNS version 1":      edit(withOPT, end+6, 1),
		"EDNS flags":          edit(withOPT, end+8, 1),
		"a short OPT":         edit(withOPT, end+10, 4),
		"ECS":                 packed(t, "a.example.", dns.TypeA, opt(1232, false, &dns.EDNS0_LOCAL{Code: 8, Data: make([]byte, 7)})),
		"an unknown option":   packed(t, "a.example.", dns.TypeA, opt(1232, false, &dns.EDNS0_LOCAL{Code: 65313})),
		"too many labels":     binary.BigEndian.AppendUint32(append(append(bytes.Clone(plain[:12]), bytes.Repeat([]byte{1, 'a'}, 128)...), 0), 0x10001),
	} {
		var q Query
		if q.Parse(b) {
			t.Errorf("%s was taken for a plain question: %x", name, b)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		name, zone string
		want       bool
	}{
		{"a.cluster.local.", "cluster.local.", true},
		{"cluster.local.", "cluster.local.", true},
		{"local.", "cluster.local.", false},
		{"xcluster.local.", "cluster.local.", false},
		{"a.example.", ".", true},
		{".", ".", true},
		{`a\007cluster.local.`, "cluster.local.", false}, // one label, whose inside looks like the zone's
		{`\007cluster.local.`, "cluster.local.", false},
		{`b.a\007cluster.local.`, "cluster.local.", false},
	} {
		var q Query
		if !q.Parse(packed(t, c.name, dns.TypeA, nil)) {
			t.Fatal(c.name)
		}
		zone := make([]byte, 255)
		n, err := dns.PackDomainName(c.zone, zone, 0, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		if q.Within(zone[:n]) != c.want || dns.IsSubDomain(c.zone, c.name) != c.want {
			t.Errorf("%q within %q: want %v", c.name, c.zone, c.want)
		}
	}
}

func TestLower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "b")
		want := bytes.Clone(b)
		for i, c := range want {
			if 'A' <= c && c <= 'Z' {
				want[i] = c + 32
			}
		}
		Lower(b)
		if !bytes.Equal(b, want) {
			t.Fatalf("%x, want %x", b, want)
		}
	})
}

// FuzzParse: whatever is taken for a plain question is one for miekg/dns too, and
// means the same there.
func FuzzParse(f *testing.F) {
	f.Add(packed(f, "a.example.", dns.TypeA, nil))
	f.Add(packed(f, strings.Repeat("a.", 100), dns.TypeAAAA, opt(4096, true)))
	f.Add(packed(f, ".", 65280, opt(0, false, &dns.EDNS0_COOKIE{Code: 10, Cookie: "0011"})))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q Query
		if !q.Parse(b) {
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(b); err != nil {
			t.Fatalf("%x: miekg/dns says %v", b, err)
		}
		o := m.IsEdns0()
		name := make([]byte, 256)
		n, err := dns.PackDomainName(m.Question[0].Name, name, 0, nil, false)
		Lower(name[:n])
		if err != nil || m.Id != q.ID || len(m.Question) != 1 || m.Question[0].Qtype != q.Type || m.Question[0].Qclass != dns.ClassINET ||
			!bytes.Equal(name[:n], q.Name()) || (o != nil) != q.EDNS || m.AuthenticatedData != q.AD || m.CheckingDisabled != q.CD || !m.RecursionDesired {
			t.Fatalf("%x: %v is not %+v (%v)", b, m, q, err)
		}
		if o != nil && (o.Do() != q.DO || o.UDPSize() != q.Size || o.Version() != 0) {
			t.Fatalf("%x: %v is not %+v", b, o, q)
		}
		if dns.DefaultMsgAcceptFunc(dns.Header{Bits: binary.BigEndian.Uint16(b[2:]), Qdcount: 1, Arcount: binary.BigEndian.Uint16(b[10:])}) != dns.MsgAccept {
			t.Fatalf("%x would not be accepted", b)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	p := packed(b, "host0001.svc1.bench.example.", dns.TypeA, opt(1232, false))
	var q Query
	b.ReportAllocs()
	for b.Loop() {
		if !q.Parse(p) {
			b.Fatal()
		}
	}
}
