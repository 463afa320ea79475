package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// pauseRef is the image that holds every pod's namespaces.
const pauseRef = "localhost/pause:1"

// LoadImage puts an image on every node that is alive, and on those that come
// later. Loading a name again replaces it for containers that start later.
func (c *Cluster) LoadImage(ctx context.Context, image Image) error {
	file, err := c.saveImage(image)
	if err != nil {
		return err
	}
	alive, err := c.aliveNodes()
	if err != nil {
		return err
	}
	errs := make([]error, len(alive))
	var wait sync.WaitGroup
	for i, name := range alive {
		wait.Go(func() { errs[i] = c.load(ctx, name, file) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// aliveNodes lists the nodes that run.
func (c *Cluster) aliveNodes() ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(); err != nil {
		return nil, err
	}
	var alive []string
	for name, m := range c.record.Machines {
		if m.Number > 0 && m.First.alive() {
			alive = append(alive, name)
		}
	}
	return alive, nil
}

// saveImage writes an image where nodes that come later find it.
func (c *Cluster) saveImage(image Image) (string, error) {
	dir := filepath.Join(c.dir, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := filepath.Join(dir, strings.NewReplacer("/", "_", ":", "_").Replace(image.Ref)+".tar")
	tmp, err := os.CreateTemp(dir, ".image")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	err = image.Write(tmp)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return "", err
	}
	return name, os.Rename(tmp.Name(), name)
}

// loadAll loads every image that the cluster has on a node whose containerd is
// just starting.
func (c *Cluster) loadAll(ctx context.Context, node string) error {
	err := poll(ctx, time.Minute, "containerd of "+node, func(ctx context.Context) error {
		_, err := output(c.command(ctx, node, programPath("ctr"), "--address", containerdSock, "version"))
		return err
	})
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "images", "*.tar"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := c.load(ctx, node, file); err != nil {
			return err
		}
	}
	return nil
}

// load imports an image's tar on a node.
func (c *Cluster) load(ctx context.Context, node, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := c.command(ctx, node, programPath("ctr"), "--address", containerdSock, "--namespace", "k8s.io", "images", "import", "-")
	cmd.Stdin = file
	if _, err := output(cmd); err != nil {
		return fmt.Errorf("loading %s on %s: %w", filepath.Base(name), node, err)
	}
	return nil
}
