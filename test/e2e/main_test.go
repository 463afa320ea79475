package e2e

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// programs is where the programs under test are, and the third byte of all
// addresses in this process's tests.
type programs struct {
	dir    string
	subnet int
}

func (p programs) coredns() string    { return filepath.Join(p.dir, "coredns") }
func (p programs) controller() string { return filepath.Join(p.dir, "firebreak-controller") }

// ourVersion is what the programs say that they are: builds without a version work
// with every other.
const ourVersion = "1.4.0"

func (p programs) build(flags ...string) error {
	for out, pkg := range map[string]string{p.coredns(): "../../build/coredns", p.controller(): "../../build/controller"} {
		args := append([]string{"build", "-ldflags", "-X firebreakdns.io/firebreak/plugin/pkg/protocol/version.version=v" + ourVersion, "-o", out}, flags...)
		cmd := exec.Command("go", append(args, pkg)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, text)
		}
	}
	return nil
}

// skewed are programs whose clock is off by FIREBREAK_TEST_CLOCK_OFFSET, built for
// the first test that wants them.
var skewed = sync.OnceValues(func() (programs, error) {
	p := programs{dir: filepath.Join(built.dir, "skewed"), subnet: built.subnet}
	return p, p.build("-tags", "clockskew")
})

// built is set once, before any test: building takes longer than most of them.
var built programs

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	if testing.Short() {
		fmt.Println("end-to-end tests are skipped: -short")
		return 0
	}
	dir, err := os.MkdirTemp("", "firebreak-e2e-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.dir = dir
	held, err := built.claim()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer held.Close()
	if err := built.build(); err != nil {
		fmt.Println(err)
		return 1
	}
	// They wait for most of their time, so more of them than processors.
	if err := flag.Set("test.parallel", "10"); err != nil {
		fmt.Println(err)
		return 1
	}
	return m.Run()
}

// claim takes a subnet that no other process's tests use: DNS servers share an
// address with whoever else opens it, and clients would be answered by both.
func (p *programs) claim() (net.Listener, error) {
	for p.subnet = range 250 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.80.%d.250:1054", p.subnet)); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("every address is taken: are there other tests that hang?")
}
