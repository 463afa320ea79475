package clients

import (
	"bufio"
	"bytes"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// maxNames is the longest hosts file that is read.
const maxNames = 8 << 20

// names are clients' names from a hosts file, re-read when it changes.
type names struct {
	path   string
	known  atomic.Pointer[map[netip.Addr]string]
	size   int64 // of the file that was read last
	mod    time.Time
	failed string // the last error, said once
}

// name is the client's, or "".
func (n *names) name(a netip.Addr) string {
	if n == nil {
		return ""
	}
	known := n.known.Load()
	if known == nil {
		return ""
	}
	return (*known)[a]
}

// refresh reads the file if it is another than before. It is for one goroutine.
func (n *names) refresh() {
	info, err := os.Stat(n.path)
	if err == nil && n.known.Load() != nil && info.Size() == n.size && info.ModTime().Equal(n.mod) {
		return
	}
	var content []byte
	if err == nil {
		content, err = readBounded(n.path, maxNames)
	}
	if err != nil {
		// The names known so far are better than none.
		if n.failed != err.Error() {
			n.failed = err.Error()
			log.Warningf("Cannot read the clients' names: %v", err)
		}
		return
	}
	n.failed = ""
	known := parseHosts(content)
	n.known.Store(&known)
	n.size, n.mod = info.Size(), info.ModTime()
	log.Infof("Read the names of %d clients from %s", len(known), n.path)
}

// parseHosts reads a hosts file (hosts(5)): an address, then its name, then
// aliases, which do not matter here. The first line about an address counts.
// Lines that make no sense are left out, as resolvers do.
func parseHosts(content []byte) map[netip.Addr]string {
	known := make(map[netip.Addr]string)
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxNames)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		a, err := netip.ParseAddr(f[0])
		if err != nil {
			continue
		}
		if _, have := known[Normal(a)]; !have {
			known[Normal(a)] = strings.TrimSuffix(strings.ToValidUTF8(f[1], "?"), ".")
		}
	}
	return known
}
