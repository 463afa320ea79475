package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// tiny builds a static program for an architecture.
func tiny(t *testing.T, arch, to string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(\"here\") }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, to)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", file, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return file
}

// entries are a tar's files; folders end in a slash and have no content.
func entries(t *testing.T, r io.Reader) (names []string, headers map[string]*tar.Header, content map[string][]byte) {
	t.Helper()
	headers, content = map[string]*tar.Header{}, map[string][]byte{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return names, headers, content
		}
		if err != nil {
			t.Fatal(err)
		}
		names, headers[h.Name] = append(names, h.Name), h
		if content[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

type descriptor struct {
	MediaType   string
	Digest      string
	Size        int
	Platform    struct{ OS, Architecture string }
	Annotations map[string]string
	Config      *descriptor
	Layers      []descriptor
	Manifests   []descriptor
}

// read is a JSON blob that a descriptor names; what it says of it is checked.
func read(t *testing.T, blobs map[string][]byte, d descriptor, v any) []byte {
	t.Helper()
	body, ok := blobs["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	if !ok || sum(body) != d.Digest || len(body) != d.Size {
		t.Fatalf("Blob %s is missing, or not what its name says", d.Digest)
	}
	if v != nil {
		if err := json.Unmarshal(body, v); err != nil {
			t.Fatal(err)
		}
	}
	return body
}

func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("Builds programs: not with -short")
	}
	args := []string{"-version", "v1.2.3", "-revision", "abc", "-date", "2026-01-31T12:00:00Z", "-ref", "localhost/coredns:test"}
	amd64, arm64 := tiny(t, "amd64", "coredns-amd64"), tiny(t, "arm64", "coredns-arm64")
	out := filepath.Join(t.TempDir(), "dist", "image.tar")
	make := func() []byte {
		if err := run(append(slices.Clone(args), "-o", out, "amd64="+amd64, "arm64="+arm64), io.Discard); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	archive := make()
	if !bytes.Equal(archive, make()) {
		t.Error("The same programs make two images, want the same bytes")
	}

	_, _, blobs := entries(t, bytes.NewReader(archive))
	var top, index descriptor
	if err := json.Unmarshal(blobs["index.json"], &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json = %s, %v, want one image", blobs["index.json"], err)
	}
	if a := top.Manifests[0].Annotations; a["io.containerd.image.name"] != "localhost/coredns:test" || a["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Errorf("The image's names = %v, want both", a)
	}
	read(t, blobs, top.Manifests[0], &index)
	if len(index.Manifests) != 2 {
		t.Fatalf("The index has %d images, want one for each architecture", len(index.Manifests))
	}
	for n, arch := range []string{"amd64", "arm64"} {
		d := index.Manifests[n]
		if d.Platform.OS != "linux" || d.Platform.Architecture != arch {
			t.Errorf("Platform %d = %v, want linux/%s", n, d.Platform, arch)
		}
		var manifest descriptor
		read(t, blobs, d, &manifest)
		var config struct {
			Architecture, OS, Created string
			Config                    struct {
				Entrypoint []string
				User       string
				Env        []string
				Labels     map[string]string
			}
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		read(t, blobs, *manifest.Config, &config)
		if config.Architecture != arch || config.OS != "linux" || config.Created != "2026-01-31T12:00:00Z" || config.Config.User != "65532:65532" ||
			!slices.Equal(config.Config.Entrypoint, []string{"/coredns"}) {
			t.Errorf("The image's settings of %s = %+v", arch, config)
		}
		for label, want := range map[string]string{"version": "v1.2.3", "revision": "abc", "created": "2026-01-31T12:00:00Z", "licenses": "Apache-2.0", "title": "Firebreak coredns"} {
			if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
				t.Errorf("Label %s = %q, want %q", label, got, want)
			}
		}
		if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 {
			t.Fatalf("%d layers of %d contents, want one", len(manifest.Layers), len(config.RootFS.DiffIDs))
		}
		zip, err := gzip.NewReader(bytes.NewReader(read(t, blobs, manifest.Layers[0], nil)))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(zip)
		if err != nil || sum(plain) != config.RootFS.DiffIDs[0] {
			t.Errorf("The layer's content is not what the settings name: %v", err)
		}
		layerHolds(t, plain, map[string]string{"amd64": amd64, "arm64": arm64}[arch])
	}
}

// layerHolds checks all that a layer has.
func layerHolds(t *testing.T, plain []byte, program string) {
	t.Helper()
	names, headers, content := entries(t, bytes.NewReader(plain))
	want := []string{"coredns", "etc/", "etc/group", "etc/nsswitch.conf", "etc/passwd", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca-certificates.crt"}
	if !slices.Equal(names, want) {
		t.Errorf("The layer has %q, want %q", names, want)
	}
	for name, h := range headers {
		mode := int64(0o644)
		if name == "coredns" || strings.HasSuffix(name, "/") {
			mode = 0o755
		}
		if h.Uid != 0 || h.Gid != 0 || h.Mode != mode || h.ModTime.UTC().Format("2006-01-02T15:04") != "2026-01-31T12:00" {
			t.Errorf("%s = owner %d:%d, mode %o, time %s", name, h.Uid, h.Gid, h.Mode, h.ModTime)
		}
	}
	body, err := os.ReadFile(program)
	if err != nil || !bytes.Equal(content["coredns"], body) {
		t.Errorf("The program in the image is not the one that was given: %v", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content["etc/ssl/certs/ca-certificates.crt"]) || bytes.Count(content["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN")) < 100 {
		t.Error("The image has no CA certificates, or too few to be Mozilla's")
	}
	if !strings.Contains(string(content["etc/passwd"]), ":65532:") {
		t.Error("The image's user has no name")
	}
}

func TestRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("Builds programs: not with -short")
	}
	amd64 := tiny(t, "amd64", "coredns")
	script := filepath.Join(t.TempDir(), "coredns")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "x.tar")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "want -o FILE"},
		{[]string{"-o", out}, "want -o FILE"},
		{[]string{"-o", out, "-date", "today", "amd64=" + amd64}, "want a time"},
		{[]string{"-o", out, amd64}, "want ARCH=PROGRAM"},
		{[]string{"-o", out, "mips=" + amd64}, "amd64 and arm64"},
		{[]string{"-o", out, "arm64=" + amd64}, "not for arm64"},
		{[]string{"-o", out, "amd64=" + script}, "no Linux program"},
		{[]string{"-o", out, "amd64=" + filepath.Join(t.TempDir(), "none")}, "no such file"},
		{[]string{"-o", out, "amd64=" + amd64, "amd64=" + amd64}, "given twice"},
		{[]string{"-o", out, "amd64=" + amd64, "arm64=" + tiny(t, "arm64", "other")}, "one entrypoint"},
	} {
		if err := run(tc.args, io.Discard); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Image %q = %v, want %q", tc.args, err, tc.want)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("An image was written, want none where something is wrong")
	}
}

// What needs a loader cannot run in the image.
func TestDynamicProgram(t *testing.T) {
	arch := runtime.GOARCH
	for _, file := range []string{"/bin/ls", "/usr/bin/ls"} {
		if _, err := os.Stat(file); err != nil || machines[arch] == 0 {
			continue
		}
		if err := new(image).add(arch, file); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
			t.Errorf("A program with libraries = %v, want to be told how to build it", err)
		}
		return
	}
	t.Skip("No program with libraries here")
}
