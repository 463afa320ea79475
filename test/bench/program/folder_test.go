package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestFolderRemovesThoseOfTheDead(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(os.TempDir(), fmt.Sprintf("x-%d-1", cmd.Process.Pid))
	other := filepath.Join(os.TempDir(), fmt.Sprintf("y-%d-1", cmd.Process.Pid))
	for _, dir := range []string{dead, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	first, err := Folder("x")
	if err != nil {
		t.Fatal(err)
	}
	second, err := Folder("x")
	if err != nil || second == first {
		t.Fatalf("Second folder = %q, %v", second, err)
	}
	for dir, want := range map[string]bool{dead: false, other: true, first: true, second: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", dir, err == nil, want)
		}
	}
}
