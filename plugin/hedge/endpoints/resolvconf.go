package endpoints

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"
)

// pollEvery is how often a resolv.conf is looked at. Watching it would miss that
// it is a link to another file, or a mount over it.
const pollEvery = 2 * time.Second

// maxResolvConf is the longest file that is read.
const maxResolvConf = 64 << 10

// ResolvConf are the servers that a file in the format of resolv.conf(5) names.
type ResolvConf struct {
	Path  string
	Every time.Duration // 0: pollEvery
}

// String implements Source.
func (r *ResolvConf) String() string { return r.Path }

// Run implements Source.
func (r *ResolvConf) Run(ctx context.Context, found func([]Endpoint, error)) {
	every := r.Every
	if every == 0 {
		every = pollEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	c := &changes{found: found}
	for {
		if list, err := ReadResolvConf(r.Path); err != nil {
			c.fail(err)
		} else {
			c.tell(list)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ReadResolvConf reads the servers of a file. One without any is an error.
func ReadResolvConf(path string) ([]Endpoint, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(text) > maxResolvConf {
		return nil, fmt.Errorf("%s has %d bytes: that is no resolv.conf", path, len(text))
	}
	var list []Endpoint
	for i, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(words[1])
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %q is no address", path, i+1, words[1])
		}
		list = append(list, Endpoint{Addr: netip.AddrPortFrom(a.Unmap(), 53)})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s names no nameserver", path)
	}
	return list, nil
}
