package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestPinsMatchVersions(t *testing.T) {
	for _, g := range allGroups() {
		mod, sum, err := g.pinned()
		if err != nil {
			t.Fatal(err)
		}
		want := g.module + " " + g.version
		if !strings.Contains(string(mod), want+" // indirect\n") && !strings.Contains(string(mod), want+"\n") {
			t.Errorf("programs/%s.mod does not require %s: run `go run ./test/cluster pin`", g.name, want)
		}
		if !strings.Contains(string(sum), want+" h1:") {
			t.Errorf("programs/%s.sum does not have %s: run `go run ./test/cluster pin`", g.name, want)
		}
		for _, pkg := range g.packages {
			if !strings.Contains(string(mod), pkg+"\n") {
				t.Errorf("programs/%s.mod does not name %s: run `go run ./test/cluster pin`", g.name, pkg)
			}
		}
	}
}

func TestBinaryName(t *testing.T) {
	for pkg, want := range map[string]string{
		"go.etcd.io/etcd/server/v3":     "server",
		"k8s.io/kubernetes/cmd/kubelet": "kubelet",
		"./build/coredns":               "coredns",
		"example.org/v8engine":          "v8engine",
	} {
		if got := binaryName(pkg); got != want {
			t.Errorf("binaryName(%q) = %q, want %q", pkg, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, good := range map[string]bool{
		"dev": true, "a": true, "t-0a1b2c3d4e": true, "twelve-chars": true,
		"": false, "thirteen-char": false, "Up": false, "-a": false, "a-": false, "a/b": false, "..": false,
	} {
		if err := checkName(name); (err == nil) != good {
			t.Errorf("checkName(%q) = %v", name, err)
		}
		if good && len(linkName(name)) > 15 {
			t.Errorf("the link %s is too long for the kernel", linkName(name))
		}
	}
}

func TestPlansHaveNothingInCommon(t *testing.T) {
	for i := range maxClusters {
		p := plan{i}
		for number := 1; number <= maxNodes; number++ {
			for _, fits := range []bool{
				p.machines4().Contains(p.node4(number)), p.machines6().Contains(p.node6(number)),
				p.pods4().Overlaps(p.nodePods4(number)), p.pods6().Overlaps(p.nodePods6(number)),
				p.node4(number) != p.host4(), p.node6(number) != p.host6(),
			} {
				if !fits {
					t.Fatalf("plan %d: node %d does not fit", i, number)
				}
			}
		}
		for j := range i {
			q := plan{j}
			if p.machines4().Overlaps(q.machines4()) || p.pods4().Overlaps(q.pods4()) || p.services4().Overlaps(q.services4()) ||
				p.machines6().Overlaps(q.machines6()) || p.pods6().Overlaps(q.pods6()) || p.services6().Overlaps(q.services6()) ||
				p.services4().Overlaps(q.pods4()) || p.pods4().Overlaps(q.services4()) {
				t.Errorf("plans %d and %d overlap", i, j)
			}
		}
		if p.machines6().Overlaps(p.pods6()) || p.pods6().Overlaps(p.services6()) || p.pods4().Overlaps(p.services4()) {
			t.Errorf("plan %d overlaps itself", i)
		}
	}
}

func TestOnce(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "made")
	fails := errors.New("no luck")
	if err := once(t.Context(), dst, func(string) error { return fails }); !errors.Is(err, fails) {
		t.Fatalf("a fill that fails: %v", err)
	}
	if exists(dst) {
		t.Fatal("a fill that failed left something")
	}
	var fills atomic.Int32
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			err := once(t.Context(), dst, func(tmp string) error {
				fills.Add(1)
				return os.WriteFile(filepath.Join(tmp, "file"), nil, 0o644)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if fills.Load() != 1 || !exists(filepath.Join(dst, "file")) {
		t.Errorf("filled %d times, want once", fills.Load())
	}
}

func TestLockEndsWithContext(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockFile(ctx, name); !errors.Is(err, context.Canceled) {
		t.Errorf("a second lock: %v, want cancelled", err)
	}
	unlock()
	if unlock, err = lockFile(t.Context(), name); err != nil {
		t.Errorf("after it was let go: %v", err)
	} else {
		unlock()
	}
}

func TestProcessIsNamedForLongerThanItsNumber(t *testing.T) {
	if !self().alive() {
		t.Error("this process is said to be dead")
	}
	if other := (process{PID: os.Getpid(), Start: self().Start + 1}); other.alive() {
		t.Error("another process of this number is said to be alive")
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := processOf(cmd.Process.Pid)
	_ = cmd.Wait()
	if err == nil && p.alive() {
		t.Error("a process that has ended is said to be alive")
	}
}

// An image's parts are what its digests say, and the same files make the same
// image.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "program")
	if err := os.WriteFile(file, []byte("content"), 0o755); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	if err := errors.Join(makeDirs(root, "usr/bin"), os.Symlink("bin", filepath.Join(root, "usr/link"))); err != nil {
		t.Fatal(err)
	}
	image := Image{Ref: "localhost/x:1", Root: root, Files: map[string]string{"/usr/bin/program": file, "/a/b/c": file}, Entrypoint: []string{"/a/b/c"}}
	var first, second bytes.Buffer
	if err := errors.Join(image.Write(&first), image.Write(&second)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same files make different images")
	}
	parts := untar(t, &first)
	for name, content := range parts {
		digest, ok := strings.CutPrefix(name, "blobs/sha256/")
		if sum := sha256.Sum256([]byte(content)); ok && hex.EncodeToString(sum[:]) != digest {
			t.Errorf("%s has another digest", name)
		}
	}
	var index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
		}
	}
	if err := json.Unmarshal([]byte(parts["index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != image.Ref {
		t.Errorf("the image is called %q", got)
	}
	var manifest struct {
		Layers []struct {
			Digest string
			Size   int64
		}
	}
	if err := json.Unmarshal([]byte(parts[blobName(index.Manifests[0].Digest)]), &manifest); err != nil {
		t.Fatal(err)
	}
	layer := parts[blobName(manifest.Layers[0].Digest)]
	if int64(len(layer)) != manifest.Layers[0].Size {
		t.Errorf("the layer has %d bytes, and is said to have %d", len(layer), manifest.Layers[0].Size)
	}
	files := untar(t, strings.NewReader(layer))
	for _, name := range []string{"usr/", "usr/bin/", "usr/link", "a/", "a/b/", "a/b/c", "usr/bin/program"} {
		if _, ok := files[name]; !ok {
			t.Errorf("the image lacks %s", name)
		}
	}
	if files["a/b/c"] != "content" {
		t.Errorf("a file has the content %q", files["a/b/c"])
	}
	if err := (Image{}).Write(io.Discard); err == nil {
		t.Error("an image without a name was written")
	}
}

func untar(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	parts := map[string]string{}
	in := tar.NewReader(r)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		parts[header.Name] = string(content)
	}
}

func TestSnapshotDiff(t *testing.T) {
	before := Snapshot{"link: fb-a": true, "mount: x": true}
	after := Snapshot{"link: fb-a": true, "cgroup: /firebreak-b": true}
	if got := strings.Join(after.Diff(before), ","); got != "+ cgroup: /firebreak-b,- mount: x" {
		t.Errorf("the difference is %q", got)
	}
	if got := after.Of("b"); len(got) != 1 || !got["cgroup: /firebreak-b"] {
		t.Errorf("of b there is %v", got)
	}
}
