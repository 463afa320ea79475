// Command image writes a container image of one static program, without a
// container engine: an OCI layout in a tar, which skopeo and ctr take.
// It holds the program, CA certificates, and what names root and the user
// that it runs as; no shell, no libc, no package manager.
//
// The same program makes the same image, byte for byte, on every machine with the
// same Go: names are sorted, times are one time, owners are root, and the
// certificates come from a Go module and not from the machine.
//
//	go run ./build/image -o dist/coredns.tar -version v1.2.3 amd64=bin/coredns-amd64 arm64=bin/coredns-arm64
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const usage = `Usage: image -o FILE [-version VERSION] [-revision COMMIT] [-date TIME] [-ref NAME] ARCH=PROGRAM...

Writes an image of a static Linux program for each ARCH (amd64, arm64), which
its entrypoint is, as an OCI layout in the tar FILE.

`

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	var (
		i    image
		date string
		out  string
	)
	flags.StringVar(&out, "o", "", "`FILE` to write")
	flags.StringVar(&i.version, "version", "", "the program's version")
	flags.StringVar(&i.revision, "revision", "", "the commit that it was made from")
	flags.StringVar(&date, "date", "1970-01-01T00:00:00Z", "when that was made, in RFC 3339: the time of everything in the image")
	flags.StringVar(&i.ref, "ref", "", "the `NAME` under which ctr imports it, such as localhost/coredns:test")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if i.created, err = time.Parse(time.RFC3339, date); err != nil {
		return fmt.Errorf("-date %s: want a time such as 2026-01-31T12:00:00Z", date)
	}
	if out == "" || flags.NArg() == 0 {
		return errors.New("want -o FILE and ARCH=PROGRAM; -h says more")
	}
	for _, arg := range flags.Args() {
		arch, file, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%s: want ARCH=PROGRAM, such as amd64=bin/coredns", arg)
		}
		if err := i.add(arch, file); err != nil {
			return err
		}
	}
	return write(out, i.write)
}

// write writes a file whole, or not at all.
func write(name string, content func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // it is for others to read
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), ".image")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if err := errors.Join(content(tmp), tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}
