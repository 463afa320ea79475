package wire_test

import (
	"net"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/clients"
	"firebreakdns.io/firebreak/plugin/drill"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/miekg/dns"
)

// TestDrill: a drill hits chosen clients on the wire path as it does in the chain,
// and counts them in the same places.
func TestDrill(t *testing.T) {
	up := newUpstream(t)
	_, port := start(t, ".:PORT {\nbind 127.0.0.1\nclients\ndrill\nprometheus 127.0.0.1:0\nerrors\nnodecache\nforward . "+up.addr+"\n}\n")
	addr := "127.0.0.1:" + port
	onWire(t, addr)
	from := func(ip string) *client {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(ip)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return &client{t, c}
	}
	victim, other := from("127.0.0.2"), from("127.0.0.3")
	packet := pack(t, query("a.example.", dns.TypeA))
	other.ask(addr, packet, time.Second) // it is held from now on
	order := protocol.Order{
		ID: "wire", Fleet: "f", Mode: protocol.ModeDrop, DurationSeconds: 60, Readiness: protocol.ReadinessPass,
		Targets: []string{"127.0.0.2/32"}, ProbeToken: "00112233445566778899aabbccddeeff",
	}
	run := func(mode protocol.DrillMode, id string, during func()) {
		order.Mode, order.ID = mode, id
		if _, problem := clients.Current().Record(id, protocol.RecordingOrder{Fleet: "f", Seconds: 120, Targets: order.Targets}, clients.Now()); problem != nil {
			t.Fatal(problem)
		}
		if _, problem := drill.Current().Start(order); problem != nil {
			t.Fatal(problem)
		}
		during()
		_, _ = drill.Current().Delete(id)
		clients.Current().Forget(id)
	}
	drilled := func() float64 {
		return metric(t, "coredns_drill_drilled_total", "server=dns://"+addr, "transport=udp")
	}
	run(protocol.ModeDrop, "drop", func() {
		answers, requests := answered(t), metric(t, "coredns_dns_requests_total", "server=dns://"+addr)
		for range 5 {
			if b := victim.ask(addr, packet, 50*time.Millisecond); b != nil {
				t.Errorf("a drilled client was answered: %x", b)
			}
			if b := other.ask(addr, packet, time.Second); b == nil || b[7] != 1 {
				t.Errorf("another client was hurt: %x", b)
			}
		}
		if s := drill.Current().State(); s.Drilled != 5 || drilled() != 5 || clients.Current().Stats(clients.Now()).Drilled != 5 {
			t.Errorf("5 drilled: the drill counts %d, the metric %v, the clients %d", s.Drilled, drilled(), clients.Current().Stats(clients.Now()).Drilled)
		}
		if n := answered(t) - answers; n != 5 {
			t.Errorf("%d answers of 5", n)
		}
		if n := metric(t, "coredns_dns_requests_total", "server=dns://"+addr) - requests; n != 5 {
			t.Errorf("prometheus saw %v queries: a drilled one is none", n)
		}
		probe := query("a.example.", dns.TypeA)
		probe.SetEdns0(1232, false)
		probe.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: protocol.ProbeOption, Data: []byte{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}}}
		if b := victim.ask(addr, pack(t, probe), time.Second); b == nil {
			t.Error("the controller's probe was drilled")
		}
	})
	run(protocol.ModeRefused, "refuse", func() {
		if b := victim.ask(addr, packet, time.Second); b == nil || b[3]&0xf != dns.RcodeRefused {
			t.Errorf("not refused: %x", b)
		}
	})
	if b := victim.ask(addr, packet, time.Second); b == nil || b[7] != 1 {
		t.Errorf("after the drill: %x", b)
	}
}
