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

// hostDir is where the host's file tree is while the machine's is made from it.
const hostDir = "/.host"

// tree gives the machine a file tree of its own, and takes the host's away: so
// nothing of the host can be read or written that is not put there on purpose.
func tree(machine spec.Machine) error {
	// Nothing that is mounted from here on may reach the host.
	if err := mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	// Paths mean something else once the root is another: take hold of what
	// they mean now.
	sources := make([]*os.File, len(machine.Binds))
	for i, bind := range machine.Binds {
		file, err := os.OpenFile(bind.From, oPath, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		sources[i] = file
	}
	if err := lay(machine); err != nil {
		return err
	}
	if err := syscall.PivotRoot(machine.Root, filepath.Join(machine.Root, hostDir)); err != nil {
		return fmt.Errorf("making %s the machine's root: %w", machine.Root, err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	for i, bind := range machine.Binds {
		if err := place(sources[i], bind.To, bind.ReadOnly); err != nil {
			return err
		}
	}
	if err := syscall.Unmount(hostDir, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("letting go of the host's file tree: %w", err)
	}
	if err := os.Remove(hostDir); err != nil {
		return err
	}
	// As on a machine: what the kubelet mounts for a pod reaches containers,
	// and, where a pod asks for it, the other way.
	return mount("", "/", "", syscall.MS_SHARED|syscall.MS_REC, "")
}

// lay mounts below the machine's root what it is to have of the host.
func lay(machine spec.Machine) error {
	root := machine.Root
	if err := mount(root, root, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if err := skeleton(root); err != nil {
		return err
	}
	if err := system(root); err != nil {
		return err
	}
	for _, overlay := range machine.Overlays {
		if info, err := os.Lstat(overlay.Dir); err != nil || !info.IsDir() {
			continue // the host has no such folder to show
		}
		target := filepath.Join(root, overlay.Dir)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", overlay.Dir, overlay.Upper, overlay.Work)
		if err := mount("overlay", target, "overlay", 0, options); err != nil {
			return err
		}
	}
	for _, dir := range machine.Tmpfs {
		if err := mount("tmpfs", filepath.Join(root, dir), "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
			return err
		}
	}
	if err := mount("proc", filepath.Join(root, "proc"), "proc", 0, ""); err != nil {
		return err
	}
	return errors.Join(freshSys(filepath.Join(root, "sys")), devices(filepath.Join(root, "dev")))
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
	return setReadOnly(to, true)
}

func makeTarget(to string, dir bool) error {
	// A link may lead to what the machine does not have, such as
	// /etc/resolv.conf to a program's folder in /run.
	if info, err := os.Lstat(to); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := os.Remove(to); err != nil {
			return err
		}
	}
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
