package lab

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// swept makes each process clean up once.
var swept sync.Once

// NameFor is a name for a cluster of a test, or one of its several with more
// words. No other process has the same, so that work trees can be tested side by
// side. The first call removes what tests have left whose process is dead.
func NameFor(t testing.TB, more ...string) string {
	t.Helper()
	swept.Do(func() {
		if err := sweep(context.Background()); err != nil {
			t.Logf("cleaning up after earlier tests: %v", err)
		}
	})
	return testName(os.Getpid(), t.Name()+" "+strings.Join(more, " "))
}

// testName has the process in it, so that sweep knows whose a cluster is even
// when nothing but a link is left of it.
func testName(pid int, what string) string {
	// The numbers that have four digits to base 36.
	const from, to = 36 * 36 * 36, 36 * 36 * 36 * 36
	hash := sha256.Sum256([]byte(what))
	number := from + binary.BigEndian.Uint64(hash[:])%(to-from)
	return fmt.Sprintf("t-%s-%s", strconv.FormatInt(int64(pid), 36), strconv.FormatUint(number, 36))
}

// testPID is the process that a name of testName is made for, or 0.
func testPID(name string) int {
	parts := regexp.MustCompile(`^t-([0-9a-z]{1,5})-[0-9a-z]{4}$`).FindStringSubmatch(name)
	if parts == nil {
		return 0
	}
	pid, err := strconv.ParseInt(parts[1], 36, 32)
	if err != nil {
		return 0
	}
	return int(pid)
}

// sweep takes down the clusters of tests whose process is dead. Most died with
// it and left a folder; those that were to stay did.
func sweep(ctx context.Context) error {
	state, err := StateDir()
	if err != nil {
		return err
	}
	names, err := knownNames(state)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		pid := testPID(name)
		if pid == 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		if other, err := elsewhere(state, name); err != nil || other != "" {
			errs = append(errs, err) // whoever has that state folder sweeps it
			continue
		}
		errs = append(errs, Down(ctx, name))
	}
	return errors.Join(errs...)
}
