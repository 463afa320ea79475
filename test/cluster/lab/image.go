package lab

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Image is a container image to be made from files of this machine.
type Image struct {
	// Ref is the image's name, such as localhost/firebreak:test. A pod that
	// uses it needs imagePullPolicy Never: it is in no registry.
	Ref string
	// Root is a folder that becomes the image's file tree, or empty.
	Root string
	// Files maps paths in the image to files to put there; they come on top of
	// Root.
	Files map[string]string
	// Entrypoint is what the image runs.
	Entrypoint []string
	// Env is its environment, as NAME=value.
	Env []string
	// User is the user and group that it runs as; empty is root.
	User string
	// Archive is a file that has the whole image already; nothing but Ref goes
	// with it.
	Archive string
}

// Archive is an image that something else has packed, as an OCI layout in a tar
// that names it ref.
func Archive(ref, file string) Image { return Image{Ref: ref, Archive: file} }

// Binary is the image of one static program, which is its entrypoint.
func Binary(ref, file string) Image {
	to := "/" + filepath.Base(file)
	return Image{Ref: ref, Files: map[string]string{to: file}, Entrypoint: []string{to}}
}

// Write writes the image as an OCI image layout in a tar, which is what
// containerd and other tools import.
func (i Image) Write(w io.Writer) error {
	if i.Ref == "" || strings.ContainsAny(i.Ref, " \t\n") {
		return fmt.Errorf("image reference %q: give a name such as localhost/name:tag", i.Ref)
	}
	if i.Archive != "" {
		return copyInto(w, i.Archive)
	}
	layer, err := os.CreateTemp("", "layer")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	digest, size, err := i.layer(layer)
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Ref, err)
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}

	type object = map[string]any
	config := encodeJSON(object{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": object{"Entrypoint": i.Entrypoint, "Env": i.Env, "User": i.User},
		"rootfs": object{"type": "layers", "diff_ids": []string{digest}},
	})
	blob := func(kind, digest string, size int64) object {
		return object{"mediaType": "application/vnd.oci.image." + kind, "digest": digest, "size": size}
	}
	manifest := encodeJSON(object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": blob("config.v1+json", sum(config), int64(len(config))),
		"layers": []object{blob("layer.v1.tar", digest, size)},
	})
	named := blob("manifest.v1+json", sum(manifest), int64(len(manifest)))
	named["annotations"] = object{"io.containerd.image.name": i.Ref, "org.opencontainers.image.ref.name": i.Ref}
	index := encodeJSON(object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []object{named}})

	out := tar.NewWriter(w)
	for _, part := range []struct {
		name    string
		content io.Reader
		size    int64
	}{
		{"oci-layout", strings.NewReader(`{"imageLayoutVersion":"1.0.0"}`), 30},
		{"index.json", bytes.NewReader(index), int64(len(index))},
		{blobName(sum(manifest)), bytes.NewReader(manifest), int64(len(manifest))},
		{blobName(sum(config)), bytes.NewReader(config), int64(len(config))},
		{blobName(digest), layer, size},
	} {
		if err := out.WriteHeader(&tar.Header{Name: part.name, Mode: 0o644, Size: part.size, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.Copy(out, part.content); err != nil {
			return err
		}
	}
	return out.Close()
}

func copyInto(w io.Writer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

// layer writes the image's file tree and returns its digest and size.
func (i Image) layer(w io.Writer) (digest string, size int64, err error) {
	hash := sha256.New()
	count := &counter{}
	out := tar.NewWriter(io.MultiWriter(w, hash, count))
	made := map[string]bool{}
	if i.Root != "" {
		if err := addTree(out, i.Root, made); err != nil {
			return "", 0, err
		}
	}
	var names []string
	for name := range i.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := addParents(out, path.Dir(name), made); err != nil {
			return "", 0, err
		}
		if err := addFile(out, i.Files[name], name); err != nil {
			return "", 0, err
		}
	}
	if err := out.Close(); err != nil {
		return "", 0, err
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), count.n, nil
}

// addTree adds a folder's content.
func addTree(out *tar.Writer, root string, made map[string]bool) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		to, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			made["/"+to] = true
		}
		return addFile(out, name, to)
	})
}

// addParents adds the folders on the way to a file.
func addParents(out *tar.Writer, dir string, made map[string]bool) error {
	dir = path.Join("/", dir)
	if dir == "/" || made[dir] {
		return nil
	}
	if err := addParents(out, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return out.WriteHeader(&tar.Header{Name: strings.TrimPrefix(dir, "/") + "/", Mode: 0o755, Typeflag: tar.TypeDir})
}

// addFile adds one file, folder or link, owned by root and without a time, so
// that the same content makes the same image.
func addFile(out *tar.Writer, from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(from); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	*header = tar.Header{
		Name: strings.TrimPrefix(to, "/"), Mode: header.Mode, Size: header.Size,
		Typeflag: header.Typeflag, Linkname: header.Linkname,
	}
	if info.IsDir() {
		header.Name += "/"
	}
	if err := out.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(out, file)
	return err
}

// counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// encodeJSON encodes what always can be.
func encodeJSON(v any) []byte {
	content, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return content
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(digest[:])
}

func blobName(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }
