package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"time"
)

// image is what is written: one manifest for each program, and an index of them.
type image struct {
	programs          []program
	version, revision string
	created           time.Time
	ref               string // "": none
}

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type object = map[string]any

// layout is the tar of an OCI image layout. A blob that is there is not written
// again.
type layout struct {
	out  *tar.Writer
	at   time.Time
	have map[string]bool
	err  error
}

func (l *layout) file(name string, content []byte) {
	if l.err != nil || l.have[name] {
		return
	}
	l.have[name] = true
	l.err = l.out.WriteHeader(&tar.Header{
		Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg, ModTime: l.at, Format: tar.FormatUSTAR,
	})
	if l.err == nil {
		_, l.err = l.out.Write(content)
	}
}

// blob writes a blob and returns what names it.
func (l *layout) blob(kind string, content []byte) object {
	digest := sum(content)
	l.file("blobs/"+strings.Replace(digest, ":", "/", 1), content)
	return object{"mediaType": kind, "digest": digest, "size": len(content)}
}

// write writes the image.
func (i *image) write(w io.Writer) error {
	l := &layout{out: tar.NewWriter(w), at: i.created, have: map[string]bool{}}
	l.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	var manifests []object
	for _, p := range i.programs {
		manifest, err := i.manifest(l, p)
		if err != nil {
			return err
		}
		manifests = append(manifests, manifest)
	}
	// One name for all architectures: an index inside the index.
	named := l.blob(indexType, encode(object{
		"schemaVersion": 2, "mediaType": indexType, "manifests": manifests, "annotations": i.labels(),
	}))
	names := object{}
	if i.version != "" {
		names["org.opencontainers.image.ref.name"] = i.version
	}
	if i.ref != "" {
		names["io.containerd.image.name"] = i.ref
	}
	named["annotations"] = names
	l.file("index.json", encode(object{"schemaVersion": 2, "mediaType": indexType, "manifests": []object{named}}))
	if l.err != nil {
		return l.err
	}
	return l.out.Close()
}

// manifest writes the image of one program.
func (i *image) manifest(l *layout, p program) (object, error) {
	var plain, packed bytes.Buffer
	if err := layer(&plain, p, i.created); err != nil {
		return nil, err
	}
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := zip.Write(plain.Bytes()); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	created := i.created.UTC().Format(time.RFC3339)
	config := l.blob(configType, encode(object{
		"architecture": p.arch, "os": "linux", "created": created,
		"config": object{
			"Entrypoint": []string{"/" + p.name}, "User": user, "WorkingDir": "/",
			"Env":    []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
			"Labels": i.labels(),
		},
		"rootfs":  object{"type": "layers", "diff_ids": []string{sum(plain.Bytes())}},
		"history": []object{{"created": created, "created_by": "build/image", "comment": p.name}},
	}))
	manifest := l.blob(manifestType, encode(object{
		"schemaVersion": 2, "mediaType": manifestType, "config": config,
		"layers":      []object{l.blob(layerType, packed.Bytes())},
		"annotations": i.labels(),
	}))
	manifest["platform"] = object{"os": "linux", "architecture": p.arch}
	return manifest, nil
}

// labels are what registries and scanners show of an image.
func (i *image) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "Firebreak " + i.programs[0].name,
		"org.opencontainers.image.description": "DNS in which one dead server does not become everybody's outage",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.vendor":      "Firebreak",
		"org.opencontainers.image.url":         "https://firebreakdns.io",
		"org.opencontainers.image.created":     i.created.UTC().Format(time.RFC3339),
	}
	if i.version != "" {
		labels["org.opencontainers.image.version"] = i.version
	}
	if i.revision != "" {
		labels["org.opencontainers.image.revision"] = i.revision
	}
	return labels
}

// encode encodes what always can be; maps come out sorted.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(digest[:])
}
