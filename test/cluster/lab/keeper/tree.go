package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"firebreakdns.io/firebreak/test/cluster/lab/spec"
)

// tree turns the host's file tree, of which this process has a copy, into the
// machine's.
func tree(machine spec.Machine) error {
	// Nothing that is mounted from here on may reach the host.
	if err := mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	// A mount may hide the source of a later one, so take hold of all first.
	sources := make([]*os.File, len(machine.Binds))
	for i, bind := range machine.Binds {
		file, err := os.OpenFile(bind.From, oPath, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		sources[i] = file
	}
	for _, overlay := range machine.Overlays {
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", overlay.Dir, overlay.Upper, overlay.Work)
		if err := mount("overlay", overlay.Dir, "overlay", 0, options); err != nil {
			return err
		}
	}
	for _, dir := range machine.Tmpfs {
		if err := mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
			return err
		}
	}
	for i, bind := range machine.Binds {
		if err := place(sources[i], bind.To, bind.ReadOnly); err != nil {
			return err
		}
	}
	if err := freshSys(); err != nil {
		return err
	}
	// As on a machine: what the kubelet mounts for a pod reaches containers,
	// and, where a pod asks for it, the other way.
	if err := mount("", "/", "", syscall.MS_SHARED|syscall.MS_REC, ""); err != nil {
		return err
	}
	return os.Chdir("/")
}

// oPath opens a file to name it, not to read it.
const oPath = 0x200000

// place shows an open file or folder as the path to, which it makes if needed.
func place(from *os.File, to string, readOnly bool) error {
	if info, err := from.Stat(); err != nil {
		return err
	} else if err := makeTarget(to, info.IsDir()); err != nil {
		return err
	}
	if err := mount(fmt.Sprintf("/proc/self/fd/%d", from.Fd()), to, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	return mount("", to, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
}

func makeTarget(to string, dir bool) error {
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if dir {
		return os.MkdirAll(to, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// freshSys mounts /sys anew, since it shows the links of the network namespace
// that it was mounted from, and keeps the control groups in it.
func freshSys() error {
	const groups = "/sys/fs/cgroup"
	held, err := os.OpenFile(groups, oPath, 0)
	if err != nil {
		return err
	}
	defer held.Close()
	if err := mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	return mount(fmt.Sprintf("/proc/self/fd/%d", held.Fd()), groups, "", syscall.MS_BIND|syscall.MS_REC, "")
}

// sysctls writes kernel settings. One that this kernel lacks is no error: the
// feature that it would tame is not there either.
func sysctls(settings map[string]string) error {
	for name, value := range settings {
		err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mounting %s %s on %s (%s): %w", kind, source, target, data, err)
	}
	return nil
}
