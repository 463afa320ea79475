package lab

import (
	"debug/elf"
	"fmt"
)

// Static returns an error unless a file is a static program, which alone can run
// in an image that has nothing else.
func Static(file string) error {
	program, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("%s is no program for Linux: %w", file, err)
	}
	defer program.Close()
	// A library has nowhere to begin.
	if program.Type != elf.ET_EXEC && program.Type != elf.ET_DYN || program.Entry == 0 {
		return fmt.Errorf("%s is no program but another kind of ELF file (%s)", file, program.Type)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static: it needs a loader and libraries that its image would not have; build it with CGO_ENABLED=0", file)
		}
	}
	return nil
}
