package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Pin resolves the modules of every program anew, from the versions in
// versions.go, and writes programs/*.mod and programs/*.sum in dir, the folder
// of this package. It needs the Go module proxy.
func Pin(ctx context.Context, dir string, out io.Writer) error {
	for _, g := range allGroups() {
		if err := g.pin(ctx, filepath.Join(dir, "programs"), out); err != nil {
			return fmt.Errorf("pinning %s %s: %w", g.module, g.version, err)
		}
	}
	return nil
}

func (g group) pin(ctx context.Context, dir string, out io.Writer) error {
	tmp, err := os.MkdirTemp("", "pin")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	var mod bytes.Buffer
	fmt.Fprintf(&mod, "module %s\n\ngo 1.26.0\n\nrequire %s %s\n", g.name, g.module, g.version)
	for _, pkg := range sortedPackages(g.packages) {
		fmt.Fprintf(&mod, "tool %s\n", pkg)
	}
	if g.staging {
		staged, err := g.staged(ctx, tmp)
		if err != nil {
			return err
		}
		for _, module := range staged {
			fmt.Fprintf(&mod, "replace %s => %s v0.%s\n", module, module, strings.TrimPrefix(g.version, "v1."))
		}
	}
	if err := os.WriteFile(filepath.Join(tmp, "go.mod"), mod.Bytes(), 0o644); err != nil {
		return err
	}
	if _, err := output(goCommand(ctx, tmp, "mod", "tidy")); err != nil {
		return err
	}
	for from, to := range map[string]string{"go.mod": g.name + ".mod", "go.sum": g.name + ".sum"} {
		content, err := os.ReadFile(filepath.Join(tmp, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), content, 0o644)
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s: pinned to %s %s\n", g.name, g.module, g.version)
	return nil
}

// staged lists the modules that the group's module replaces by folders of its own.
func (g group) staged(ctx context.Context, tmp string) ([]string, error) {
	var download struct{ GoMod string }
	out, err := output(goCommand(ctx, tmp, "mod", "download", "-json", g.module+"@"+g.version))
	if err == nil {
		err = json.Unmarshal(out, &download)
	}
	if err != nil {
		return nil, err
	}
	var mod struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	out, err = output(goCommand(ctx, tmp, "mod", "edit", "-json", download.GoMod))
	if err == nil {
		err = json.Unmarshal(out, &mod)
	}
	if err != nil {
		return nil, err
	}
	var staged []string
	for _, replace := range mod.Replace {
		if strings.HasPrefix(replace.New.Path, "./") {
			staged = append(staged, replace.Old.Path)
		}
	}
	if len(staged) == 0 {
		return nil, errors.New("its go.mod replaces no module by a folder, so it is not laid out as expected")
	}
	return staged, nil
}
