package standalone

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"firebreakdns.io/firebreak/controller/fleet"
)

// readFleet is how often the fleet file is looked at. Its content is compared:
// not every file system and not every editor tells of changes.
const readFleet = time.Second

// watchFile follows the fleet file.
func (c *Controller) watchFile(ctx context.Context) {
	last := c.digest()
	every(ctx, readFleet, func() {
		if now := c.digest(); now != nil && !bytes.Equal(now, last) {
			last = now
			c.reload()
		}
		if c.starting.TryLock() { // else somebody starts one, and applies it first
			c.applyPending()
			c.starting.Unlock()
		}
	})
}

// digest of the fleet file and its hosts file; nil while it cannot be read: it
// may be in the middle of being replaced.
func (c *Controller) digest() []byte {
	data, err := os.ReadFile(c.options.FleetFile)
	if err != nil {
		return nil
	}
	h := sha256.New()
	h.Write(data)
	if hosts := c.newest().Hosts; hosts != "" {
		if !filepath.IsAbs(hosts) {
			hosts = filepath.Join(filepath.Dir(c.options.FleetFile), hosts)
		}
		data, _ = os.ReadFile(hosts) // gone is another content
		h.Write(data)
	}
	return h.Sum(nil)
}

// reload takes a changed fleet file. One that is not in order changes nothing.
func (c *Controller) reload() {
	config, err := fleet.Load(c.options.FleetFile)
	if err == nil && c.timings.IgnoreHealth && !config.AllLoopback() {
		err = fmt.Errorf("%s is set, and not every server is on loopback", EnvIgnoreHealth)
	}
	if err != nil {
		c.log.Error("the changed fleet file is not in order: going on with what was read before", "error", err)
		return
	}
	c.mu.Lock()
	before := c.config
	c.config, c.pending = config, true
	waits := c.onLocked() != nil
	c.mu.Unlock()
	c.warn(config)
	if before.Drills.Enabled != config.Drills.Enabled {
		c.audit.Info("drills switched", "by", "fleet file", "enabled", config.Drills.Enabled)
	}
	if before.API.Listen != config.API.Listen || before.Metrics.Listen != config.Metrics.Listen {
		c.log.Warn("the fleet file has other addresses for api or metrics: they take effect when the controller is restarted")
	}
	if waits {
		c.log.Info("the fleet file has changed: drills.enabled and roles take effect now, the rest when the drill is over")
	}
}

// warn says what in a fleet file probably was not meant.
func (c *Controller) warn(config *fleet.Config) {
	for _, w := range config.Warnings {
		c.log.Warn("the fleet file", "file", config.Path, "line", w.Line, "field", w.Field, "warning", w.Message)
	}
}

// applyPending watches the fleet as the newest file has it, unless a run is on:
// it was planned for the servers as they were. c.starting is held.
func (c *Controller) applyPending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pending || c.onLocked() != nil || c.closing {
		return
	}
	c.pending = false
	next, err := fleet.Open(c.config, fleet.Options{Log: c.log, From: c.fleet})
	if err != nil {
		c.log.Error("the changed fleet file cannot be used: going on with the servers as they were", "error", err)
		return
	}
	old := c.fleet
	c.fleet = next
	c.driving.Go(old.Close) // it waits for calls that are on
	c.log.Info("fleet file taken", "fleet", c.config.Fleet, "servers", len(c.config.Servers), "drills", c.config.Drills.Enabled)
}
