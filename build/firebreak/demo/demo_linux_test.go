package demo

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"firebreakdns.io/firebreak/controller/run"
)

// TestDemo is what somebody does first: build, and run the demo. It holds the
// demo to its word, and to leaving nothing behind, even when it is killed.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds the three programs and runs a whole drill")
	}
	bin := t.TempDir()
	for name, pkg := range map[string]string{programServer: "../../coredns", programController: "../../controller", "firebreak": ".."} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(bin, name), pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", pkg, err, out)
		}
	}
	temp := t.TempDir()
	begin := func(args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
		cmd := exec.Command(filepath.Join(bin, "firebreak"), append([]string{"demo"}, args...)...)
		var out, story bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &out, &story
		cmd.Env = append(os.Environ(), "TMPDIR="+temp)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &out, &story
	}

	t.Run("interrupted", func(t *testing.T) {
		cmd, _, story := begin()
		for deadline := time.Now().Add(20 * time.Second); len(children(bin)) < serverCount+2 && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(story.String(), "everything was taken down again") {
			t.Errorf("ended with %d:\n%s", code, story)
		}
		gone(t, bin)
	})
	t.Run("to its end", func(t *testing.T) {
		began := time.Now()
		cmd, out, story := begin("-o", "json")
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, story)
		}
		t.Logf("took %v", time.Since(began).Round(time.Second))
		var r run.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("standard output is not the report alone: %v\n%s", err, out)
		}
		if want := (run.Verdicts{Followed: 3 + crowd, Stuck: 1, Quiet: 1, Elsewhere: 1}); r.Verdicts != want || r.Reason != run.ClientsStuck {
			t.Errorf("%+v, %s", r.Verdicts, r.Reason)
		}
		page, err := os.ReadFile(filepath.Join(cmd.Dir, DefaultPage))
		if err != nil || !bytes.Contains(page, []byte(r.ID)) {
			t.Errorf("the page: %v", err)
		}
		gone(t, bin)
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			t.Errorf("%s is left in the folder for temporary files", left[0].Name())
		}
	})
	t.Run("an upstream", func(t *testing.T) {
		cmd, out, story := begin("--upstream", "-o", "json")
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, story)
		}
		var r run.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("standard output is not the report alone: %v\n%s", err, out)
		}
		if r.Spec.Stage != run.StageUpstream || r.Outcome != run.Passed || len(r.Upstreams) != 2 || r.During == nil || r.During.Errors != 0 {
			t.Errorf("%+v", r)
		}
		if !strings.Contains(story.String(), "questions 0 were not answered") {
			t.Errorf("the story:\n%s", story)
		}
		gone(t, bin)
	})
	t.Run("killed", func(t *testing.T) {
		cmd, _, _ := begin()
		for deadline := time.Now().Add(20 * time.Second); len(children(bin)) < serverCount+2 && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
		if n := len(children(bin)); n != serverCount+2 {
			t.Fatalf("%d processes are on", n)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		gone(t, bin)
	})
}

// children are the living processes whose program is in the folder, the demo's
// own left out.
func children(bin string) []string {
	var all []string
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err == nil && filepath.Dir(exe) == bin && filepath.Base(exe) != "firebreak" {
			all = append(all, exe)
		}
	}
	return all
}

// gone waits until nothing of the demo is on.
func gone(t *testing.T, bin string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if len(children(bin)) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("still on: %v", children(bin))
}
