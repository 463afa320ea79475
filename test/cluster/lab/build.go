package lab

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// CacheEnv names the environment variable that moves the cache folder.
const CacheEnv = "FIREBREAK_CLUSTER_CACHE"

// CacheDir is the folder that keeps what is built once: the programs of a
// cluster and the images made from them. It is $FIREBREAK_CLUSTER_CACHE, or
// firebreak/cluster in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder to build the cluster's programs into: %w; set %s", err, CacheEnv)
	}
	return filepath.Join(dir, "firebreak", "cluster"), nil
}

// Programs maps the name of each program of a cluster to its file.
type Programs map[string]string

// Build makes sure that every program is in the cache folder and returns them.
// A program is built once for its versions, flags and Go toolchain; a second
// caller waits for the first. Progress goes to out, which may be nil: a line
// when a group of programs starts and ends, and one every 15 s in between.
// The first build takes about 13 minutes on two cores.
func Build(ctx context.Context, out io.Writer) (Programs, error) {
	if out == nil {
		out = io.Discard
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("the cache folder: %w; set %s to a folder that can be written to", err, CacheEnv)
	}
	programs := Programs{}
	for _, g := range groups() {
		dir, err := g.build(ctx, cache, out)
		if err != nil {
			return nil, fmt.Errorf("building %s %s: %w", g.module, g.version, err)
		}
		for name := range g.packages {
			programs[name] = filepath.Join(dir, name)
		}
	}
	for _, name := range ownPrograms() {
		file, err := buildOwn(ctx, cache, name)
		if err != nil {
			return nil, fmt.Errorf("building %s: %w", name, err)
		}
		programs[name] = file
	}
	return programs, programs.complete()
}

// complete returns an error if a program is not there, as when somebody cleared
// the cache folder by halves: else a cluster would wait for it in vain.
func (p Programs) complete() error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		info, err := os.Stat(p[name])
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			continue
		}
		dir := filepath.Dir(p[name])
		return fmt.Errorf("the cache folder has no program %s: run `rm -r %s` and then `go run ./test/cluster build`, which builds what was there anew", p[name], dir)
	}
	return nil
}

// Built says whether Build has nothing to do but to build the small programs of
// our own, which takes a second.
func Built() (bool, error) {
	cache, err := CacheDir()
	if err != nil {
		return false, err
	}
	for _, g := range groups() {
		dir, err := g.dir(cache)
		if err != nil || !exists(dir) {
			return false, err
		}
		programs := Programs{}
		for name := range g.packages {
			programs[name] = filepath.Join(dir, name)
		}
		if err := programs.complete(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// dir is the folder for the group's programs, whose name has all that they are
// made from.
func (g group) dir(cache string) (string, error) {
	mod, sum, err := g.pinned()
	if err != nil {
		return "", err
	}
	key := sha256.New()
	fmt.Fprintln(key, toolchain(), g.tags, g.ldflags, sortedPackages(g.packages))
	key.Write(mod)
	key.Write(sum)
	return filepath.Join(cache, fmt.Sprintf("%s-%s-%.8x", g.name, strings.TrimPrefix(g.version, "v"), key.Sum(nil))), nil
}

// build returns the folder with the group's programs, building it if needed.
func (g group) build(ctx context.Context, cache string, out io.Writer) (string, error) {
	dir, err := g.dir(cache)
	if err != nil {
		return "", err
	}
	mod, sum, err := g.pinned()
	if err != nil {
		return "", err
	}
	return dir, once(ctx, dir, func(tmp string) error {
		src := filepath.Join(tmp, "src")
		if err := errors.Join(
			os.Mkdir(src, 0o755),
			os.WriteFile(filepath.Join(src, "go.mod"), mod, 0o644),
			os.WriteFile(filepath.Join(src, "go.sum"), sum, 0o644),
		); err != nil {
			return err
		}
		if err := g.compile(ctx, src, tmp, out); err != nil {
			return err
		}
		return os.RemoveAll(src)
	})
}

// compile builds the group's programs from the module in src into dst.
func (g group) compile(ctx context.Context, src, dst string, out io.Writer) error {
	started := time.Now()
	fmt.Fprintf(out, "%s %s: building (once; see %s)\n", g.name, g.version, dst)
	list := goCommand(ctx, src, append([]string{"list", "-deps", "-tags", g.tags}, sortedPackages(g.packages)...)...)
	deps, err := output(list)
	if err != nil {
		return err
	}
	total := bytes.Count(deps, []byte("\n"))

	built := make(chan string, 64)
	said := make(chan struct{})
	go func() {
		defer close(said)
		tick := time.NewTicker(15 * time.Second)
		defer tick.Stop()
		n := 0
		for {
			select {
			case _, more := <-built:
				if !more {
					return
				}
				n++
			case <-tick.C:
				fmt.Fprintf(out, "%s: %d of at most %d packages compiled, %s\n", g.name, n, total, time.Since(started).Round(time.Second))
			}
		}
	}()
	cpu, err := g.link(ctx, src, dst, built)
	close(built)
	<-said
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s: built in %s (%s of CPU)\n", g.name, g.version, time.Since(started).Round(time.Second), cpu.Round(time.Second))
	return nil
}

// link builds the programs into dst and says each package that was compiled
// for them. It returns the processor time that it took.
func (g group) link(ctx context.Context, src, dst string, built chan<- string) (time.Duration, error) {
	cmd := goCommand(ctx, src, append([]string{
		"build", "-v", "-trimpath", "-mod=readonly", "-tags", g.tags, "-ldflags", g.ldflags, "-o", dst + "/",
	}, sortedPackages(g.packages)...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	// With -v, a line is a package; in case of an error, it is the error.
	var tail []string
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		built <- lines.Text()
		if tail = append(tail, lines.Text()); len(tail) > 30 {
			tail = tail[1:]
		}
	}
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", cmd, err, strings.Join(tail, "\n"))
	}
	for name, pkg := range g.packages {
		if made := binaryName(pkg); made != name {
			if err := os.Rename(filepath.Join(dst, made), filepath.Join(dst, name)); err != nil {
				return 0, err
			}
		}
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// binaryName is the name that go build gives the program of a main package: the
// last element of its path that is not a major version.
func binaryName(pkg string) string {
	dir, last := path.Split(pkg)
	if len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		return path.Base(dir)
	}
	return last
}

// pinned returns the group's go.mod and go.sum.
func (g group) pinned() (mod, sum []byte, err error) {
	if mod, err = fs.ReadFile(pins, "programs/"+g.name+".mod"); err == nil {
		sum, err = fs.ReadFile(pins, "programs/"+g.name+".sum")
	}
	if err != nil {
		err = fmt.Errorf("%w; run `go run ./test/cluster pin`", err)
	}
	return mod, sum, err
}

// goCommand is a go command in a module of its own: no workspace, no vendor
// folder and no flags of whoever calls reach it, and what it builds is static,
// so that it also runs in an empty image.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	return cmd
}

// toolchain names what turns sources into programs.
func toolchain() string {
	return runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

func sortedPackages(packages map[string]string) []string {
	return slices.Sorted(maps.Values(packages))
}

// output runs a command and returns what it printed; an error has what it said.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", cmd, err, strings.TrimSpace(stderr.String()))
	}
	return out, err
}
