package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"firebreakdns.io/firebreak/controller/run"
)

// nothingLeft is what must hold after every bad moment: within a while both servers
// answer, no server is drilled or records, every run is final, in its file too, and
// no file is half written.
func (l *lab) nothingLeft(within time.Duration) {
	l.t.Helper()
	l.clean(within)
	for _, name := range []string{"ns1", "ns2"} {
		if !l.answers(name) {
			l.t.Errorf("%s does not answer", name)
		}
	}
	var left []string
	l.eventually(within, "every run is final in its file, and no file is half written", func() bool {
		left = l.unfinished()
		return len(left) == 0
	})
}

// unfinished are files that are half written, and runs that are not final as their
// file has them.
func (l *lab) unfinished() (left []string) {
	l.t.Helper()
	err := filepath.WalkDir(l.disk(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) { // renamed meanwhile
				return nil
			}
			return err
		}
		switch {
		case strings.Contains(d.Name(), ".new"):
			left = append(left, path)
		case filepath.Base(filepath.Dir(path)) == "runs" && strings.HasSuffix(path, ".json"):
			var file struct{ Content run.Run }
			data, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(data, &file)
			}
			if err != nil || !file.Content.Phase.Final() {
				left = append(left, fmt.Sprintf("%s: %s %v", path, file.Content.Phase, err))
			}
		}
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return left
}
