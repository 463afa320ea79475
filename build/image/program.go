package main

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// program is a static program of one architecture.
type program struct {
	arch string // as Go and OCI call it
	name string // in the image: its file's, less "-ARCH"
	body []byte
}

// machines are the architectures that there are images for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// add takes a program into the image, if it can run in it.
func (i *image) add(arch, file string) error {
	machine, ok := machines[arch]
	if !ok {
		return fmt.Errorf("%s: there are images for amd64 and arm64", arch)
	}
	if slices.ContainsFunc(i.programs, func(p program) bool { return p.arch == arch }) {
		return fmt.Errorf("%s is given twice", arch)
	}
	body, err := os.ReadFile(file) //nolint:gosec // the caller's own file
	if err != nil {
		return err
	}
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("%s is no Linux program: build it with GOOS=linux", file)
	}
	defer f.Close()
	if f.Machine != machine {
		return fmt.Errorf("%s is for %s, not for %s", file, f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs a loader and libraries, and the image has none: build it with CGO_ENABLED=0", file)
		}
	}
	name := filepath.Base(file)
	if len(name) > len(arch)+1 && name[len(name)-len(arch)-1:] == "-"+arch {
		name = name[:len(name)-len(arch)-1]
	}
	if len(i.programs) > 0 && i.programs[0].name != name {
		return fmt.Errorf("%s would be /%s, and %s is /%s: all architectures of an image have one entrypoint", arch, name, i.programs[0].arch, i.programs[0].name)
	}
	i.programs = append(i.programs, program{arch: arch, name: name, body: body})
	return nil
}
