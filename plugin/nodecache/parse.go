package nodecache

import (
	"strconv"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"

	"github.com/miekg/dns"
)

// parse reads one server block's options into o, and those of the process into p.
func parse(c *caddy.Controller, p *processOptions) (*options, error) {
	var o *options
	for c.Next() {
		if o != nil {
			return nil, plugin.ErrOnce
		}
		args := c.RemainingArgs()
		var ttl uint32
		if len(args) > 0 {
			if _, err := strconv.Atoi(args[0]); err == nil {
				if ttl, err = seconds(c, "TTL", args[0], 1); err != nil {
					return nil, err
				}
				args = args[1:]
			}
		}
		for _, a := range args {
			if err := isZone(c, a); err != nil {
				return nil, err
			}
		}
		o = newOptions(plugin.OriginsFromArgsOrServerBlock(args, c.ServerBlockKeys))
		if ttl != 0 {
			o.lifetimes.positive.most, o.lifetimes.negative.most = ttl, ttl
		}
		given := make(map[string]bool)
		for c.NextBlock() {
			option := c.Val()
			if given[option] && option != "disable" {
				return nil, c.Errf("%s is given twice in one block: keep one", option)
			}
			given[option] = true
			if err := parseOption(c, o, p); err != nil {
				return nil, err
			}
		}
		if o.prefer > 0 && o.holdAll == 0 {
			return nil, c.Err("serve_stale off and serve_stale_policy prefer_positive contradict each other: what is not held cannot be preferred")
		}
		for name, l := range map[string]limits{"success": o.lifetimes.positive, "denial": o.lifetimes.negative} {
			if l.least > l.most {
				return nil, c.Errf("%s: MINTTL %d is more than the TTL %d: give a larger TTL or a smaller MINTTL", name, l.least, l.most)
			}
		}
	}
	return o, nil
}

// isZone says what is wrong with a word that should name a zone. A TTL that is
// taken for one names a zone of which nobody asks: nothing would be cached.
func isZone(c *caddy.Controller, word string) error {
	_, noNumber := strconv.Atoi(word)
	if _, noDuration := time.ParseDuration(word); noNumber == nil || noDuration == nil {
		return c.Errf("%s: a TTL is a number of seconds, without a unit, and stands first", word)
	}
	zones := plugin.Host(word).NormalizeExact()
	for _, z := range zones {
		if _, is := dns.IsDomainName(z); !is {
			return c.Errf("%q is no zone", word)
		}
	}
	if len(zones) == 0 {
		return c.Errf("%q is no zone", word)
	}
	return nil
}

// words are the options, for who misspells one.
const words = "success, denial, servfail, disable, prefetch, serve_stale, serve_stale_policy, bytes and snapshot"

func parseOption(c *caddy.Controller, o *options, p *processOptions) error {
	option, args := c.Val(), c.RemainingArgs()
	switch option {
	case "success":
		return parseLimits(c, option, args, &o.lifetimes.positive)
	case "denial":
		return parseLimits(c, option, args, &o.lifetimes.negative)
	case "servfail":
		d, err := oneDuration(c, option, args, 0, maxFailure)
		if err != nil {
			return err
		}
		o.lifetimes.failure, err = ttl(c, option, d)
		return err
	case "disable":
		return parseDisable(c, args, o)
	case "prefetch":
		return parsePrefetch(c, args, o)
	case "serve_stale":
		return parseStale(c, args, o)
	case "serve_stale_policy":
		if len(args) == 0 || len(args) > 2 || args[0] != "prefer_positive" {
			return c.Err("serve_stale_policy wants prefer_positive, and if need be for how long: serve_stale_policy prefer_positive 5m")
		}
		o.prefer = defaultPrefer
		if len(args) == 2 {
			d, err := duration(c, option, args[1], time.Second, maxPrefer)
			o.prefer = d
			return err
		}
		return nil
	case "bytes":
		if len(args) != 1 {
			return c.Err("bytes wants one size: bytes 64MiB")
		}
		n, err := size(c, option, args[0], minBytes, maxBytes)
		if err != nil {
			return err
		}
		if p.bytes != 0 && p.bytes != n {
			return c.Errf("bytes is %s in one place and %s in another, but all server blocks share one store: give it once", inUnits(p.bytes), inUnits(n))
		}
		p.bytes = n
		return nil
	case "snapshot":
		return parseSnapshot(c, args, p)
	case "keepttl":
		return c.Err("keepttl: nodecache has no such option: every record counts down its own TTL, or clients would keep answers for too long")
	}
	return c.Errf("unknown option %q: there are %s", option, words)
}

// parseLimits reads CAPACITY [TTL] [MINTTL]. CAPACITY is a number of answers in
// plugin cache; here the bound is bytes, and it is only checked.
func parseLimits(c *caddy.Controller, option string, args []string, l *limits) error {
	if len(args) == 0 || len(args) > 3 {
		return c.Errf("%s wants CAPACITY [TTL] [MINTTL]: %s 0 30 1 (CAPACITY is not used: bytes bounds the cache)", option, option)
	}
	if n, err := strconv.Atoi(args[0]); err != nil || n < 0 {
		return c.Errf("%s: %q is no capacity: write 0 (bytes bounds the cache)", option, args[0])
	}
	if len(args) > 1 {
		most, err := seconds(c, option+" TTL", args[1], 1)
		if err != nil {
			return err
		}
		l.most = most
	}
	if len(args) > 2 {
		least, err := seconds(c, option+" MINTTL", args[2], 0)
		if err != nil {
			return err
		}
		l.least = least
	}
	return nil
}

func parseDisable(c *caddy.Controller, args []string, o *options) error {
	if len(args) == 0 {
		return c.Err("disable wants success or denial, and if need be zones: disable denial example.org")
	}
	zones := []string{"."}
	if len(args) > 1 {
		zones = nil
		for _, a := range args[1:] {
			z := plugin.Name(a).Normalize()
			if _, is := dns.IsDomainName(z); !is {
				return c.Errf("disable: %q is no zone", a)
			}
			zones = append(zones, z)
		}
	}
	switch args[0] {
	case "success":
		o.disabledSuccess = zones
	case "denial":
		o.disabledDenial = zones
	default:
		return c.Errf("disable %q: there are success and denial", args[0])
	}
	return nil
}

func parsePrefetch(c *caddy.Controller, args []string, o *options) error {
	if len(args) == 0 || len(args) > 3 {
		return c.Err("prefetch wants AMOUNT [DURATION [PERCENTAGE%]]: prefetch 3 1m 10%, or prefetch 0 for none")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || n > maxPrefetch {
		return c.Errf("prefetch %s: use a number from 0 (none) to %d", args[0], maxPrefetch)
	}
	o.prefetch = n
	if len(args) > 1 {
		if o.prefetchGap, err = duration(c, "prefetch", args[1], time.Second, 24*time.Hour); err != nil {
			return err
		}
	}
	if len(args) > 2 {
		percent, is := strings.CutSuffix(args[2], "%")
		n, err := strconv.Atoi(percent)
		if err != nil || !is || n < 10 || n > 90 {
			return c.Errf("prefetch: %q is no percentage from 10%% to 90%%", args[2])
		}
		o.prefetchPercent = n
	}
	return nil
}

// parseStale reads off, or [DURATION] [verify [WAIT [TTL [RECHECK]]]], or
// [DURATION] [immediate [TTL [RECHECK]]], as plugin cache has it.
func parseStale(c *caddy.Controller, args []string, o *options) (err error) {
	o.holdAll, o.staleWait, o.staleTTL, o.failureRecheck = defaultHold, defaultStaleWait, defaultStaleTTL, defaultRecheck
	if len(args) == 1 && args[0] == "off" {
		o.holdAll = 0
		return nil
	}
	if len(args) > 0 {
		if o.holdAll, err = duration(c, "serve_stale", args[0], 0, maxHold); err != nil {
			return err
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return nil
	}
	mode, args := args[0], args[1:]
	switch mode {
	case "verify":
		if len(args) > 0 {
			if o.staleWait, err = duration(c, "serve_stale verify", args[0], 0, maxWait); err != nil {
				return err
			}
			if o.staleWait == 0 { // in plugin cache: as long as upstreams take
				o.staleWait = maxWait
			}
			args = args[1:]
		}
	case "immediate":
		o.staleWait = 0
	default:
		return c.Errf("serve_stale %q: there are verify and immediate", mode)
	}
	if len(args) > 0 {
		d, err := duration(c, "serve_stale", args[0], time.Second, maxHold)
		if err != nil {
			return err
		}
		if o.staleTTL, err = ttl(c, "serve_stale", d); err != nil {
			return err
		}
		args = args[1:]
	}
	if len(args) > 0 {
		if o.failureRecheck, err = duration(c, "serve_stale", args[0], time.Second, maxRecheck); err != nil {
			return err
		}
		args = args[1:]
	}
	if len(args) > 0 {
		return c.Errf("serve_stale: %q is too much: it takes [DURATION] [verify [WAIT [TTL [RECHECK]]] | immediate [TTL [RECHECK]]]", args[0])
	}
	return nil
}

func parseSnapshot(c *caddy.Controller, args []string, p *processOptions) error {
	if len(args) == 0 || len(args) > 2 {
		return c.Err("snapshot wants a file, and if need be how large it may be: snapshot /var/lib/firebreak/cache 16MiB")
	}
	path, most := underRoot(c, args[0]), int64(defaultSnapshot)
	if len(args) == 2 {
		n, err := size(c, "snapshot", args[1], 1<<16, maxBytes)
		if err != nil {
			return err
		}
		most = n
	}
	if p.snapshot != "" && (p.snapshot != path || p.snapshotSize != most) {
		return c.Errf("snapshot is %s of at most %s in one place and %s of at most %s in another, but all server blocks share one store: give it once",
			p.snapshot, inUnits(p.snapshotSize), path, inUnits(most))
	}
	p.snapshot, p.snapshotSize = path, most
	return nil
}

func seconds(c *caddy.Controller, what, s string, least int) (uint32, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > 7*24*3600 {
		return 0, c.Errf("%s %s: use a number of seconds from %d to %d", what, s, least, 7*24*3600)
	}
	return uint32(n), nil // #nosec G115 -- bounded
}

// ttl is a duration in the seconds that TTLs are in.
func ttl(c *caddy.Controller, what string, d time.Duration) (uint32, error) {
	if d%time.Second != 0 {
		return 0, c.Errf("%s %s: a TTL is in whole seconds: use %s or %s", what, d, d.Truncate(time.Second), d.Truncate(time.Second)+time.Second)
	}
	return uint32(d / time.Second), nil // #nosec G115 -- bounded
}

func oneDuration(c *caddy.Controller, what string, args []string, least, most time.Duration) (time.Duration, error) {
	if len(args) != 1 {
		return 0, c.Errf("%s wants one duration, as 5s: got %d", what, len(args))
	}
	return duration(c, what, args[0], least, most)
}

func duration(c *caddy.Controller, what, s string, least, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < least || d > most {
		return 0, c.Errf("%s %s: use a duration from %s to %s, as 30s", what, s, least, most)
	}
	return d, nil
}

// size reads a number of bytes with a unit.
func size(c *caddy.Controller, what, s string, least, most int64) (int64, error) {
	for unit, shift := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if digits, is := strings.CutSuffix(s, unit); is {
			n, err := strconv.ParseInt(digits, 10, 32)
			if err == nil && n<<shift >= least && n<<shift <= most {
				return n << shift, nil
			}
		}
	}
	return 0, c.Errf("%s %s: use a size from %s to %s, as 64MiB", what, s, inUnits(least), inUnits(most))
}

func inUnits(n int64) string {
	switch {
	case n >= 1<<30:
		return strconv.FormatInt(n>>30, 10) + "GiB"
	case n >= 1<<20:
		return strconv.FormatInt(n>>20, 10) + "MiB"
	}
	return strconv.FormatInt(n>>10, 10) + "KiB"
}
