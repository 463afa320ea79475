package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is whom the image runs as where nobody says otherwise: not root, and by
// number, so that runAsNonRoot can tell.
const user = "65532:65532"

// files are all that is in the image besides the program.
func files() map[string][]byte {
	return map[string][]byte{
		"etc/passwd":                        []byte("root:x:0:0:root:/:/none\nnonroot:x:65532:65532:nonroot:/:/none\n"),
		"etc/group":                         []byte("root:x:0:\nnonroot:x:65532:\n"),
		"etc/nsswitch.conf":                 []byte("hosts: files dns\n"),
		"etc/ssl/certs/ca-certificates.crt": certificates(),
	}
}

// certificates are those that Mozilla trusts, as Go packs them. One that is
// trusted within limits only is left out: a file of certificates cannot say the
// limits.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
		}
	}
	return out.Bytes()
}

// layer writes the image's only layer, of one time.
func layer(w io.Writer, p program, at time.Time) error {
	content := files()
	content[p.name] = p.body
	names := make([]string, 0, len(content))
	for name := range content {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			names = append(names, dir+"/")
		}
		names = append(names, name)
	}
	slices.Sort(names)
	out := tar.NewWriter(w)
	for _, name := range slices.Compact(names) {
		h := &tar.Header{Name: name, ModTime: at, Format: tar.FormatUSTAR}
		switch {
		case strings.HasSuffix(name, "/"):
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		case name == p.name:
			h.Typeflag, h.Mode, h.Size = tar.TypeReg, 0o755, int64(len(content[name]))
		default:
			h.Typeflag, h.Mode, h.Size = tar.TypeReg, 0o644, int64(len(content[name]))
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(content[name]); err != nil {
			return err
		}
	}
	return out.Close()
}
