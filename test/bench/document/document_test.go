package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const before = "a\n<!-- x: begin -->\n1\n<!-- x: end -->\nb\n<!-- y: begin -->\n2\n<!-- y: end -->\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"x": "one\n", "y": "two\n"} {
		if err := Write(path, name, text); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.NewReplacer("1\n", "one\n", "2\n", "two\n").Replace(before)
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("Page = %q, %v, want %q", got, err, want)
	}
	if err := Write(path, "z", "three"); err == nil || !strings.Contains(err.Error(), "z: begin") {
		t.Errorf("Write without a place for it = %v, want what is missing", err)
	}
}
