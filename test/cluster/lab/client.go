package lab

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// ClientRef is the name of the client image.
const ClientRef = "localhost/client:1"

// clientPackages are the Debian packages that the client image is made of:
// glibc's resolver and getent, musl's loader and library, busybox with a shell,
// and drill to ask a server by hand.
func clientPackages() []string {
	return []string{"libc6", "libc-bin", "musl", "busybox", "ldnsutils", "libldns3", "libssl3"}
}

// clientFiles are what of those packages is kept.
func clientFiles() []string {
	cpu, loader := "x86_64", "lib64"
	if runtime.GOARCH == "arm64" {
		cpu, loader = "aarch64", "lib/ld-linux-*"
	}
	return []string{
		"etc/gai.conf",
		"lib/" + cpu + "-linux-gnu", loader, "lib/" + cpu + "-linux-musl", "lib/ld-musl-*",
		"usr/lib/" + cpu + "-linux-gnu/lib*.so.*",
		"usr/bin/getent", "usr/bin/drill", "bin/busybox",
	}
}

// clientApplets are the programs that busybox stands for. Its wget crashes with
// -T when it succeeds (1.35): use timeout.
func clientApplets() []string {
	return []string{
		"cat", "echo", "env", "head", "id", "ip", "ls", "mkdir", "nc", "nslookup", "ping", "rm",
		"sed", "sh", "sleep", "timeout", "touch", "wget",
	}
}

//go:embed client/lookup.c
var clientSources embed.FS

// ClientImage is a small image of real clients, from Debian's packages: getent
// (glibc), lookup-musl (musl's getaddrinfo, which prints what getent would),
// drill, and busybox as the shell and its tools. It is made once into the cache
// folder; the first time, packages are downloaded.
func ClientImage(ctx context.Context) (Image, error) {
	cache, err := CacheDir()
	if err != nil {
		return Image{}, err
	}
	source, err := clientSources.ReadFile("client/lookup.c")
	if err != nil {
		return Image{}, err
	}
	key := sha256.New()
	fmt.Fprintln(key, clientPackages(), clientFiles(), clientApplets(), string(source))
	root := filepath.Join(cache, fmt.Sprintf("client-%.8x", key.Sum(nil)))
	err = once(ctx, root, func(tmp string) error { return fillClient(ctx, tmp, source) })
	if err != nil {
		return Image{}, fmt.Errorf("making the client image: %w", err)
	}
	return Image{
		Ref: ClientRef, Root: root,
		Entrypoint: []string{"/bin/busybox", "sleep", "2147483647"},
		Env:        []string{"PATH=/usr/bin:/bin"},
	}, nil
}

// fillClient makes the client image's file tree.
func fillClient(ctx context.Context, root string, source []byte) error {
	work, err := os.MkdirTemp("", "client")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// apt drops to a user of its own to download, who must get in.
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	download := exec.CommandContext(ctx, "apt-get", append([]string{"download", "-q", "-o", "APT::Sandbox::User=root"}, clientPackages()...)...)
	download.Dir = work
	if _, err := output(download); err != nil {
		return fmt.Errorf("%w\nrun apt-get update first, if that was not done", err)
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	unpacked := filepath.Join(work, "unpacked")
	for _, deb := range debs {
		if _, err := output(exec.CommandContext(ctx, "dpkg-deb", "--extract", deb, unpacked)); err != nil {
			return err
		}
	}
	for _, pattern := range clientFiles() {
		found, err := filepath.Glob(filepath.Join(unpacked, pattern))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("none of the packages %v has %s any more", clientPackages(), pattern)
		}
		for _, from := range found {
			if err := take(unpacked, from, root); err != nil {
				return err
			}
		}
	}
	return finishClient(ctx, work, root, source)
}

// take moves a file or folder of one tree to the same place in another.
func take(tree, from, to string) error {
	rel, err := filepath.Rel(tree, from)
	if err != nil {
		return err
	}
	target := filepath.Join(to, rel)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return moveFile(from, target, info)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		// Character sets and such: most of the size, and no client's need.
		if entry.Name() == "gconv" || entry.Name() == "audit" {
			continue
		}
		if err := take(tree, filepath.Join(from, entry.Name()), to); err != nil {
			return err
		}
	}
	return nil
}

// moveFile copies a file or link, since the cache may be on another file system.
func moveFile(from, to string, info fs.FileInfo) error {
	if exists(to) {
		return nil
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		link, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(link, to)
	}
	if err := copyFile(from, to); err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm())
}

// finishClient adds what no package has.
func finishClient(ctx context.Context, work, root string, source []byte) error {
	for name, content := range map[string]string{
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		"etc/passwd":        "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
		"etc/group":         "root:x:0:\nnogroup:x:65534:\n",
	} {
		file := filepath.Join(root, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644))
		if err != nil {
			return err
		}
	}
	for _, applet := range clientApplets() {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil {
			return err
		}
	}
	if err := makeDirs(root, "tmp", "proc", "sys", "dev"); err != nil {
		return err
	}
	lookup := filepath.Join(work, "lookup.c")
	if err := os.WriteFile(lookup, source, 0o644); err != nil {
		return err
	}
	_, err := output(exec.CommandContext(ctx, "musl-gcc", "-O2", "-Wall", "-o", filepath.Join(root, "usr/bin/lookup-musl"), lookup))
	return err
}
