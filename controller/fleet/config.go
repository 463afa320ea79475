package fleet

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// maxFile is the most bytes of a fleet or hosts file.
const maxFile = 4 << 20

// Config is a fleet file that was checked, with its parts as what they are.
type Config struct {
	File
	Path string // of the file

	Servers        []ServerConfig
	Service        []netip.AddrPort
	Infrastructure []netip.Prefix
	Probe          Question
	Monitors       []run.Monitor // with a type each
	Warnings       []Problem     // what may be meant, and probably is not

	names  map[string][]netip.Addr   // of clients, lower case: of the file and of its hosts file
	groups map[string][]netip.Prefix // of clients
}

// ServerConfig is a server of the fleet.
type ServerConfig struct {
	Name    string
	DNS     []netip.AddrPort
	Control string // as in the file
	Ready   string
}

// Question is what the controller's own probes ask.
type Question struct {
	Name string // fully qualified
	Type uint16
}

// Load reads a fleet file and checks everything in it, and that the files it
// names can be used. The error is a *Problems where something in it is wrong.
func Load(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("fleet file: %w", err)
	}
	c := &checker{config: &Config{Path: path}}
	c.readYAML(data, &c.config.File)
	var hosts []byte
	if h := c.config.Hosts; h != "" {
		if hosts, err = readFile(c.config.resolve(h)); err != nil {
			c.bad("hosts", "%v", err)
		}
	}
	c.check(hosts)
	c.checkTLS("tls", c.config.TLS, mtls.KindClient)
	c.checkTLS("api.tls", c.config.API.TLS, mtls.KindAPI)
	return c.done()
}

// Parse is Load of a file's content without the files that it names.
func Parse(name string, data []byte) (*Config, error) {
	c := &checker{config: &Config{Path: name}}
	c.readYAML(data, &c.config.File)
	c.check(nil)
	return c.done()
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes: this cannot be what was meant", path, maxFile)
	}
	return data, err
}

// resolve is a path of the file as seen from here.
func (c *Config) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(c.Path), path)
}

// Files of a TLS section.
func (c *Config) Files(t *TLS) mtls.Files {
	return mtls.Files{Cert: c.resolve(t.Cert), Key: c.resolve(t.Key), CA: c.resolve(t.CA)}
}

func (c *checker) checkTLS(field string, t *TLS, kind mtls.Kind) {
	if t == nil || t.CA == "" || t.Cert == "" || t.Key == "" {
		return // said already
	}
	if _, err := mtls.Open(c.config.Files(t), kind, nil); err != nil {
		c.bad(field, "%v", err)
	}
}

// Expired says which of the file's certificates have expired, as an error for
// each. They are no problems of the file: it is read again without a restart.
func (c *Config) Expired(now time.Time) []error {
	var out []error
	for _, x := range []struct {
		t    *TLS
		kind mtls.Kind
	}{{c.TLS, mtls.KindClient}, {c.API.TLS, mtls.KindAPI}} {
		if x.t == nil {
			continue
		}
		source, err := mtls.Open(c.Files(x.t), x.kind, nil)
		if err != nil {
			out = append(out, err)
		} else if leaf := source.Keys().Leaf; now.After(leaf.NotAfter) {
			out = append(out, fmt.Errorf("%s: %w", c.resolve(x.t.Cert), mtls.Expired(leaf)))
		}
	}
	return out
}

// ServerNames in the file's order.
func (c *Config) ServerNames() []string {
	out := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		out[i] = s.Name
	}
	return out
}

// Schedule by its name.
func (c *Config) Schedule(name string) (run.Schedule, bool) {
	i := slices.IndexFunc(c.Schedules, func(s run.Schedule) bool { return s.Name == name })
	if i < 0 {
		return run.Schedule{}, false
	}
	return c.Schedules[i], true
}

// AllLoopback reports whether every server answers on loopback only: a test or
// a demonstration on one machine.
func (c *Config) AllLoopback() bool {
	for _, s := range c.Servers {
		for _, a := range s.DNS {
			if !a.Addr().IsLoopback() {
				return false
			}
		}
	}
	return true
}
