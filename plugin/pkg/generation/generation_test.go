//go:build linux

package generation

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asMember has this test's binary be a member in a process of its own: it says
// whether it is the owner, line by line, until its input ends.
const asMember = "FIREBREAK_TEST_GENERATION"

func TestMain(m *testing.M) {
	if group := os.Getenv(asMember); group != "" {
		if err := member(group); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func member(group string) error {
	m, err := Join(group)
	if err != nil {
		return err
	}
	m.Claim()
	gone := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(gone) }()
	for {
		fmt.Printf("owner=%v peers=%d\n", m.Owner(), len(m.Peers()))
		select {
		case <-m.Changed():
		case <-gone:
			m.Leave()
			return nil
		}
	}
}

// process is a member in a process of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Closer
	mu   sync.Mutex
	last string
}

func start(t *testing.T, path, group string, attr *syscall.SysProcAttr) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(path)}
	p.cmd.Env = append(os.Environ(), asMember+"="+group)
	p.cmd.SysProcAttr = attr
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.last = lines.Text()
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-read
		_ = p.cmd.Wait()
	})
	return p
}

// says waits for a line, and says how long it took.
func (p *process) says(want string) time.Duration {
	p.t.Helper()
	began := time.Now()
	for {
		p.mu.Lock()
		last := p.last
		p.mu.Unlock()
		if last == want {
			return time.Since(began)
		}
		if time.Since(began) > 10*time.Second {
			p.t.Fatalf("the member says %q after 10 s, want %q", last, want)
		}
		time.Sleep(time.Millisecond)
	}
}

func group(t *testing.T) string {
	return fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano()%1e9)
}

// until waits for what is to become true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after 5 s: %s", what)
		}
	}
}

func join(t *testing.T, group string) *Member {
	t.Helper()
	m, err := Join(group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Leave)
	return m
}

// The newest that claims is the owner; who does not claim owns nothing.
func TestNewestOwns(t *testing.T) {
	g := group(t)
	a := join(t, g)
	if a.Owner() {
		t.Error("it owns before it claimed")
	}
	a.Claim()
	if !a.Owner() {
		t.Error("alone, it does not own")
	}
	b := join(t, g)
	until(t, "the older one knows the newer", func() bool { return len(a.Peers()) == 1 })
	if p := a.Peers()[0]; !p.Newer || p.ID != b.ID() || p.Claims || p.Version != Version || p.PID != os.Getpid() {
		t.Errorf("peer = %+v, want the newer one", p)
	}
	if !a.Owner() || b.Owner() {
		t.Error("one that does not claim took the ownership")
	}
	b.Claim()
	until(t, "the newer one owns alone", func() bool { return !a.Owner() && b.Owner() })
	b.Leave()
	until(t, "the older one owns again", func() bool { return a.Owner() && len(a.Peers()) == 0 })
	if b.Owner() {
		t.Error("one that left owns")
	}
}

// A group of another name is another one.
func TestGroupsAreApart(t *testing.T) {
	g := group(t)
	a, b := join(t, g), join(t, g+"x")
	a.Claim()
	b.Claim()
	if !a.Owner() || !b.Owner() || len(a.Peers()) != 0 {
		t.Errorf("two groups know each other: %v %v", a.Peers(), b.Peers())
	}
	if _, err := Join("a/b"); err == nil || !strings.Contains(err.Error(), "letters") {
		t.Errorf("Join(a/b) = %v, want an error that says what a name is", err)
	}
}

func TestFacts(t *testing.T) {
	g := group(t)
	a, b := join(t, g), join(t, g)
	if err := b.Publish("captured", true); err != nil {
		t.Fatal(err)
	}
	until(t, "the fact is known", func() bool {
		peers := a.Peers()
		return len(peers) == 1 && string(peers[0].Facts["captured"]) == "true"
	})
	if err := b.Publish("captured", nil); err != nil {
		t.Fatal(err)
	}
	until(t, "the fact is taken back", func() bool { return len(a.Peers()[0].Facts) == 0 })
	if err := b.Publish("long", strings.Repeat("x", maxLine)); err == nil {
		t.Error("a fact that does not fit in a line was taken")
	}
	// Who comes later is told as well.
	if err := a.Publish("steering", map[string]int{"sockets": 2}); err != nil {
		t.Fatal(err)
	}
	c := join(t, g)
	if peers := c.Peers(); len(peers) != 2 || string(peers[0].Facts["steering"]) != `{"sockets":2}` {
		t.Errorf("peers of the newcomer = %+v, want the first one's fact", peers)
	}
}

// Many that join at once all know each other, and one owns.
func TestAllAtOnce(t *testing.T) {
	g := group(t)
	const n = 12
	members := make([]*Member, n)
	var wg sync.WaitGroup
	for i := range members {
		wg.Go(func() {
			m, err := Join(g)
			if err != nil {
				t.Error(err)
				return
			}
			m.Claim()
			members[i] = m
		})
	}
	wg.Wait()
	defer func() {
		for _, m := range members {
			if m != nil {
				m.Leave()
			}
		}
	}()
	if t.Failed() {
		return
	}
	owners := func() (owners int) {
		for _, m := range members {
			if m.Owner() {
				owners++
			}
		}
		return owners
	}
	until(t, "all know all, and one owns", func() bool {
		for _, m := range members {
			if len(m.Peers()) != n-1 {
				return false
			}
		}
		return owners() == 1
	})
}

// What one of a later version says is read as far as it is known.
func TestLaterVersion(t *testing.T) {
	g := group(t)
	a := join(t, g)
	a.Claim()
	c, err := net.Dial("unix", a.place.socket(g))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, `{"v":9,"id":"ffffffff","since":%d,"claims":true,"colour":"red","facts":{"x":[1]}}`+"\n", a.place.since+1)
	until(t, "it is taken for a newer owner", func() bool { return !a.Owner() })
	if p := a.Peers()[0]; p.Version != 9 || string(p.Facts["x"]) != "[1]" {
		t.Errorf("peer = %+v", p)
	}
	var said state
	if err := json.NewDecoder(c).Decode(&said); err != nil || said.Version != Version || said.ID != a.ID() {
		t.Errorf("it was told %+v, %v", said, err)
	}
	fmt.Fprintln(c, "nonsense")
	until(t, "who talks nonsense is gone", func() bool { return a.Owner() && len(a.Peers()) == 0 })
}

// Processes: the newest owns; killed, the older one does, at once; ended, as well.
func TestProcesses(t *testing.T) {
	g := group(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, self, g, nil)
	a.says("owner=true peers=0")
	b := start(t, self, g, nil)
	b.says("owner=true peers=1")
	a.says("owner=false peers=1")
	c := start(t, self, g, nil)
	c.says("owner=true peers=2")
	b.says("owner=false peers=2")
	a.says("owner=false peers=2")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if d := b.says("owner=true peers=1"); d > time.Second {
		t.Errorf("the older one took over after %s, want within 1 s", d)
	} else {
		t.Logf("the older one took over %s after kill -9", d.Round(time.Millisecond))
	}
	a.says("owner=false peers=1")
	b.in.Close()
	a.says("owner=true peers=0")
}

// Another user is none of us, whichever side it comes from.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: becoming another user needs root: run it as root")
	}
	g := group(t)
	a := join(t, g)
	a.Claim()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "firebreak-generation")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "member")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	other := start(t, path, g, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	other.says("owner=true peers=0") // in its own eyes
	until(t, "its connection was refused", func() bool { return a.Strangers() > 0 })
	if !a.Owner() || len(a.Peers()) != 0 {
		t.Errorf("a stranger is a peer: %+v", a.Peers())
	}
	b2 := join(t, g) // it calls the stranger too
	b2.Claim()
	until(t, "the newcomer owns in spite of the stranger", func() bool { return b2.Owner() && !a.Owner() && len(b2.Peers()) == 1 })
}

func TestSocketNames(t *testing.T) {
	o := order{time.Duration(12345), "0a1b2c3d"}
	if got, ok := placeOf("g", o.socket("g")); !ok || got != o {
		t.Errorf("placeOf = %+v, %v", got, ok)
	}
	for _, name := range []string{"@firebreak/1/g/", "@firebreak/1/g/1", "@firebreak/1/g/-x", "@firebreak/1/g/x-1", "@firebreak/1/h/1-a", "@other"} {
		if _, ok := placeOf("g", name); ok {
			t.Errorf("%q is taken for a member's", name)
		}
	}
	table := `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 1 @firebreak/1/g/00000000000000000005-aa
0000000000000000: 00000003 00000000 00000000 0001 03 2 @firebreak/1/g/00000000000000000005-aa
0000000000000000: 00000002 00000000 00010000 0001 01 3 /run/x.sock
0000000000000000: 00000002 00000000 00010000 0001 01 4
0000000000000000: 00000002 00000000 00010000 0001 01 5 @firebreak/1/h/00000000000000000005-bb
`
	found, err := socketsIn(strings.NewReader(table), "g")
	if err != nil || len(found) != 1 {
		t.Errorf("sockets = %q, %v, want the one that listens", found, err)
	}
}
