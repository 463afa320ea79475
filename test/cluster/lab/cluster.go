package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cluster is a cluster that is up. Its methods may be called at the same time.
type Cluster struct {
	name string
	// id is the record's.
	id   string
	dir  string
	plan plan
	out  io.Writer

	// mu guards what follows, and the record's file.
	mu     sync.Mutex
	record record
	// keepers holds the machines that die with this process.
	keepers map[string]*keeper

	config *rest.Config
	client *kubernetes.Clientset
}

// Open returns a cluster that another process has started.
func Open(name string) (*Cluster, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	state, err := StateDir()
	if err != nil {
		return nil, err
	}
	return openIn(state, name)
}

func openIn(state, name string) (*Cluster, error) {
	dir := filepath.Join(state, name)
	r, err := readRecord(dir)
	if err != nil {
		return nil, fmt.Errorf("no cluster %q: %w; see `go run ./test/cluster status`", name, err)
	}
	c := newCluster(r, dir, io.Discard)
	return c, c.connect()
}

func newCluster(r record, dir string, out io.Writer) *Cluster {
	return &Cluster{name: r.Name, id: r.ID, dir: dir, plan: plan{r.Index}, out: out, record: r, keepers: map[string]*keeper{}}
}

// connect makes the clients of the harness, who is the cluster's administrator.
func (c *Cluster) connect() error {
	config, err := restConfig(c.KubeconfigPath())
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	c.config, c.client = config, client
	return err
}

// Name is the cluster's name.
func (c *Cluster) Name() string { return c.name }

// Server is the URL of the API server, for the host and for machines.
func (c *Cluster) Server() string { return c.plan.server() }

// DNSAddress is the Service address that pods are told to ask for names: make a
// Service with it as its clusterIP.
func (c *Cluster) DNSAddress() string { return c.plan.dns4().String() }

// KubeconfigPath is the file with the administrator's access. It is for the
// test itself and for people: what is under test gets Kubeconfig.
func (c *Cluster) KubeconfigPath() string { return filepath.Join(c.dir, "kubeconfig") }

// Config is the administrator's access, as KubeconfigPath has it. The caller
// may change the copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client is a client with the administrator's access.
func (c *Cluster) Client() *kubernetes.Clientset { return c.client }

// change changes the record, in memory and in its file.
func (c *Cluster) change(do func(*record)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Another process may be adding a node.
	unlock, err := lockFile(context.Background(), recordFile(c.dir)+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.refresh(); err != nil {
		return err
	}
	do(&c.record)
	return c.record.write(c.dir)
}

// machine looks a machine up, as the record's file has it now.
func (c *Cluster) machine(name string) (machineRecord, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(); err != nil {
		return machineRecord{}, err
	}
	m, ok := c.record.Machines[name]
	if !ok {
		return m, fmt.Errorf("cluster %s has no machine %q", c.name, name)
	}
	return m, nil
}

// refresh reads the record, which other processes change too. The caller holds
// mu.
func (c *Cluster) refresh() error {
	r, err := readRecord(c.dir)
	if err == nil && r.ID != c.id {
		return c.replaced()
	}
	if err == nil {
		c.record = r
	}
	return nil
}

// replaced is the error when the record is that of another cluster.
func (c *Cluster) replaced() error {
	return fmt.Errorf("this cluster %s was taken down by somebody else, and another of its name is up, which was left alone", c.name)
}

// say prints a line of progress.
func (c *Cluster) say(format string, args ...any) {
	fmt.Fprintf(c.out, format+"\n", args...)
}

// machineDir is the folder with what belongs to a machine.
func (c *Cluster) machineDir(name string) string { return filepath.Join(c.dir, "machines", name) }

// Disk is where the host has the disk of a machine: the root of its file tree,
// but for what is mounted over it there (/etc, /run, /usr, /var/log and others).
func (c *Cluster) Disk(machine string) string { return filepath.Join(c.machineDir(machine), "root") }

// makeDirs makes folders below dir.
func makeDirs(dir string, names ...string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	return errors.Join(errs...)
}

// release lets the cluster outlive this process.
func (c *Cluster) release() error {
	if err := c.change(func(r *record) { r.Released = true }); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, k := range c.keepers {
		errs = append(errs, k.release())
	}
	return errors.Join(errs...)
}
