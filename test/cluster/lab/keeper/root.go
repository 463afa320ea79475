package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// skeleton makes the folders that a file tree has by custom. They are on the
// machine's disk, so they may be there from an earlier start.
func skeleton(root string) error {
	for dir, mode := range map[string]fs.FileMode{
		hostDir: 0o700, "dev": 0o755, "etc": 0o755, "home": 0o755, "media": 0o755, "mnt": 0o755, "opt": 0o755, "proc": 0o755,
		"root": 0o700, "run": 0o755, "srv": 0o755, "sys": 0o755, "tmp": 0o777 | fs.ModeSticky, "usr": 0o755, "var": 0o755,
		"var/cache": 0o755, "var/lib": 0o755, "var/log": 0o755, "var/spool": 0o755, "var/tmp": 0o777 | fs.ModeSticky,
	} {
		dir = filepath.Join(root, dir)
		// Not what the umask leaves of the mode.
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, mode)); err != nil {
			return err
		}
	}
	return errors.Join(link("/run", filepath.Join(root, "var/run")), link("/run/lock", filepath.Join(root, "var/lock")))
}

// system shows the host's programs and libraries, which nobody can change from
// within the machine.
func system(root string) error {
	for _, dir := range []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		from, to := filepath.Join("/", dir), filepath.Join(root, dir)
		info, err := os.Lstat(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(from)
			if err == nil {
				err = link(target, to)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return err
		}
		if err := setReadOnly(to, true); err != nil {
			return err
		}
	}
	return nil
}

// link makes a link unless it is there from an earlier start.
func link(target, name string) error {
	if err := os.Symlink(target, name); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// freshSys mounts /sys anew, since it shows the links of the network namespace
// that it was mounted from, and keeps the control groups in it.
func freshSys(to string) error {
	if err := mount("sysfs", to, "sysfs", 0, ""); err != nil {
		return err
	}
	const groups = "fs/cgroup"
	return mount(filepath.Join("/sys", groups), filepath.Join(to, groups), "", syscall.MS_BIND|syscall.MS_REC, "")
}

// devices shows the host's devices. They are the host's, but no file can be
// made or removed among them, and shared memory is the machine's own.
func devices(to string) error {
	if err := mount("/dev", to, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}
	if err := setReadOnly(to, true); err != nil {
		return err
	}
	// Whoever opens a terminal becomes its owner.
	if terminals := filepath.Join(to, "pts"); isDir(terminals) {
		_ = setReadOnly(terminals, false) // it is no mount of its own everywhere
	}
	if shared := filepath.Join(to, "shm"); isDir(shared) {
		return mount("tmpfs", shared, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777")
	}
	return nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
