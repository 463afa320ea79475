package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNewestIsCalled: while an old and a new process share a server's addresses, as
// at an upgrade, all that is asked of the endpoint reaches the new one; when that
// one dies, the old one; and the next new one again. An order that the one about to
// end would take is lost.
func TestNewestIsCalled(t *testing.T) {
	l := newTLSLab(t, 126)
	boot := func() string {
		if s := l.state("ns1"); s != nil {
			return s.BootID
		}
		return ""
	}
	// always says of whom every one of many connections speaks.
	always := func(who string) string {
		for range 40 {
			if b := boot(); b != who {
				t.Errorf("a call reached %q, want %q", b, who)
				return b
			}
		}
		return who
	}
	second := func(name string) *process {
		text, err := os.ReadFile(filepath.Join(l.dir, "ns1.conf"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(l.dir, name+".conf")
		own := strings.ReplaceAll(string(text), "ns1.table", name+".table")
		if err := os.WriteFile(path, []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
		return l.start(name, nil, l.bin.coredns(), "-conf", path)
	}
	first := boot()
	if first == "" {
		t.Fatal("no answer")
	}
	newer := second("newer")
	l.eventually(10*time.Second, "the newer one is called", func() bool { return boot() != first })
	time.Sleep(time.Second) // it looks for its place first
	always(boot())
	newer.kill()
	always(first)
	newest := second("newest")
	l.eventually(10*time.Second, "the newest one is called", func() bool { return boot() != first })
	time.Sleep(time.Second)
	who := always(boot())
	l.ns["ns1"].signal(syscall.SIGTERM)
	<-l.ns["ns1"].done
	always(who)
	newest.signal(syscall.SIGTERM)
	<-newest.done
}
