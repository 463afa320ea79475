package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// nameCount is how many names the cached loads ask: more than a node's pods use
// in half a minute, and few enough to be in every server's cache as it comes.
const nameCount = 1000

// Where the names lie: in the cluster's zone, so that NodeLocal's first server
// block has them, as it has most of what pods ask.
const (
	cachedZone = "bench.svc.cluster.local"
	missZone   = "miss.svc.cluster.local"
	fillZone   = "fill.svc.cluster.local"
)

// writeNames writes the names as the load clients and dnsperf read them.
func writeNames(path string) error {
	var b strings.Builder
	for i := range nameCount {
		fmt.Fprintf(&b, "service-%d.%s A\n", i, cachedZone)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // read by servers that drop root
}

// readNames are a file's names.
func readNames(path string) ([]string, error) {
	f, err := os.Open(path) //nolint:gosec // the measurement's own folder
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, _, ok := strings.Cut(s.Text(), " "); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no names", path)
	}
	return names, nil
}
