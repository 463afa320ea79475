//go:build linux

package stubs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// lookup is one line of what a client logged.
type lookup struct {
	Start, End time.Time
	Name       string
	Result     string // "ok" or why not
}

func (l lookup) ok() bool            { return l.Result == "ok" }
func (l lookup) took() time.Duration { return l.End.Sub(l.Start) }

// readLookups reads a client's log. The last line may be half written.
func readLookups(path string) ([]lookup, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := string(b)
	text = text[:strings.LastIndexByte(text, '\n')+1]
	var out []lookup
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 4 {
			return nil, fmt.Errorf("%s: a line that is none of a lookup: %q", path, line)
		}
		start, err1 := strconv.ParseInt(f[0], 10, 64)
		end, err2 := strconv.ParseInt(f[1], 10, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("%s: a line that is none of a lookup: %q", path, line)
		}
		out = append(out, lookup{time.UnixMicro(start), time.UnixMicro(end), strings.ToLower(f[2]), f[3]})
	}
	return out, nil
}
