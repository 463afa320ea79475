//go:build linux

package lab

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a killed run leaves is gone when the next one has started.
func TestLeftovers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: network namespaces need root: run it as root")
	}
	killed, err := New()
	if err != nil {
		t.Fatal(err)
	}
	h, err := killed.Host("leftover", Clients, netip.MustParseAddr("198.51.100.9"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.Start(context.Background(), Files{}, filepath.Join(t.TempDir(), "out"), nil, "sleep", "120")
	if err != nil {
		t.Fatal(err)
	}
	// The kernel takes a killed run's lock away, and nothing else.
	killed.lock.Close()

	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), h.Namespace()) {
		t.Errorf("%s is still there", h.Namespace())
	}
	for range 50 {
		if !p.Running() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("what ran there still runs")
}

func TestHostOutside(t *testing.T) {
	l := &Lab{router: Prefix + "router"}
	if _, err := l.Host("x", Clients, netip.MustParseAddr("192.0.2.7")); err == nil || !strings.Contains(err.Error(), "198.51.100.0/24") {
		t.Errorf("a client among the servers: %v", err)
	}
}
