package calm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUselessSnapshot: a server whose snapshot is no use sets it aside, says so,
// and starts cold.
func TestUselessSnapshot(t *testing.T) {
	up, _ := quickUpstream(t)
	path := filepath.Join(t.TempDir(), "cache")
	plugins := "nodecache 3600 {\nsnapshot " + path + "\n}\nhedge . " + up
	p := launch(t, freePort(t), plugins, "a.test.")
	p.Stop()
	good, err := os.ReadFile(path)
	if err != nil || len(good) < 100 {
		t.Fatalf("%d bytes, %v: there is no snapshot to spoil", len(good), err)
	}
	head := strings.IndexByte(string(good), '\n')
	for what, b := range map[string]string{
		"truncated":          string(good[:len(good)-7]),
		"of another version": strings.Replace(string(good), "nodecache 1", "nodecache 9", 1),
		"garbage":            strings.Repeat("\xff\x00 nonsense", 100),
		"garbage behind":     string(good[:head+1]) + strings.Repeat("\xff", 200),
		"empty":              "",
	} {
		t.Run(what, func(t *testing.T) {
			if b == string(good) {
				t.Fatal("it is not spoilt")
			}
			if err := os.WriteFile(path, []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
			p := launch(t, freePort(t), plugins, "b.test.")
			text, err := os.ReadFile(p.log)
			if err != nil {
				t.Fatal(err)
			}
			aside, _ := filepath.Glob(path + ".damaged*")
			if len(aside) != 1 || !strings.Contains(string(text), "set aside as "+path+".damaged") || !strings.Contains(string(text), "starting cold") {
				t.Errorf("set aside: %q; it says\n%s", aside, text)
			}
			for _, a := range aside {
				if kept, err := os.ReadFile(a); err != nil || string(kept) != b {
					t.Errorf("what was set aside is not what there was: %v", err)
				}
				_ = os.Remove(a)
			}
			p.Stop()
		})
	}
}
