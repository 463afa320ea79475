package clients

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"net/netip"

	"github.com/google/go-cmp/cmp"
)

func TestParseHosts(t *testing.T) {
	got := parseHosts([]byte(`# hosts(5)
192.0.2.1	one.example. alias
192.0.2.1	again
::ffff:192.0.2.2 mapped # a comment
2001:db8::1%eth0 zoned
not-an-address name
192.0.2.9
`))
	want := map[netip.Addr]string{addr("192.0.2.1"): "one.example", addr("192.0.2.2"): "mapped", addr("2001:db8::1"): "zoned"}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("want - got +:\n%s", diff)
	}
}

func TestNamesFollowTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	n := &names{path: path}
	n.refresh() // not there yet
	if got := n.name(addr("192.0.2.1")); got != "" {
		t.Errorf("without a file the name is %q", got)
	}
	write := func(s string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		n.refresh()
	}
	for i, name := range []string{"one", "two"} { // same size: the time tells
		write("192.0.2.1 "+name, time.Duration(10-i)*time.Minute)
		if got := n.name(addr("192.0.2.1")); got != name {
			t.Errorf("the name is %q, want %q", got, name)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	n.refresh()
	if got := n.name(addr("192.0.2.1")); got != "two" {
		t.Errorf("when the file is gone the name is %q, want the last that was known", got)
	}
}
