package cmd

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// request is a drill as flags ask for it.
type request struct {
	clients, exclude []string
	upstream         string
	everyone         bool
	mode, readiness  string
	duration         time.Duration
	reason           string
	monitors         []string
	stuck, within    int
	points           float64
	changedLimits    func() bool
	changed          func(flag string) bool
	minimum, maximum time.Duration
}

func (q *request) flags(cmd *cobra.Command) {
	q.minimum, q.maximum = protocol.MinDrillSeconds*time.Second, protocol.MaxDrillSeconds*time.Second
	d := run.DefaultLimits
	f := cmd.Flags()
	f.StringSliceVar(&q.clients, "clients", nil, "whom: addresses, prefixes, names of clients or groups, comma-separated")
	f.BoolVar(&q.everyone, "everyone", false, "whom: every client of the server")
	f.StringSliceVar(&q.exclude, "exclude", nil, "whom to leave alone: like --clients")
	f.StringVar(&q.upstream, "upstream", "", "take away this upstream of the server (IP or IP:PORT), not the server; then nobody is named: it is away for all")
	f.StringVar(&q.mode, "mode", string(protocol.ModeDrop), "drop (no answer, like a dead server) or refused (answers REFUSED at once); with --upstream blackhole (what is sent to it vanishes, the default) or down (its answers count as failed)")
	f.DurationVar(&q.duration, "duration", protocol.DefaultDrillSeconds*time.Second, "how long: 15s to 5m")
	f.StringVar(&q.readiness, "readiness", string(protocol.ReadinessFail), "fail (says it is not ready, as a failing server would) or pass (stays in its Service, like a dead node that nobody has noticed)")
	f.StringVar(&q.reason, "reason", "", "why, for the report and the audit log; needed where nobody sits at a terminal")
	f.StringSliceVar(&q.monitors, "monitor", nil, "names to look up every second as a client would: NAME or NAME/AAAA")
	f.IntVar(&q.stuck, flagStuck, d.Stuck, "stuck clients with which it still passes")
	f.Float64Var(&q.points, flagErrors, d.ErrorPoints, "errors on the other servers above their usual share, in percentage points, at which it stops")
	f.IntVar(&q.within, flagExpect, d.ExpectSeconds, "within which it should be noticed, and traffic move")
	q.changed = f.Changed
	q.changedLimits = func() bool {
		return f.Changed(flagStuck) || f.Changed(flagErrors) || f.Changed(flagExpect)
	}
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"drop", "refused", "blackhole", "down"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("readiness", cobra.FixedCompletions([]string{"fail", "pass"}, cobra.ShellCompDirectiveNoFileComp))
}

// body is the message to the API. What is plainly wrong is said here, before
// anybody is asked.
func (q *request) body(a *app) (view.DrillRequest, error) {
	b := view.DrillRequest{
		Mode: protocol.DrillMode(q.mode), Readiness: protocol.Readiness(q.readiness), Everyone: q.everyone,
		Clients: q.clients, Exclude: q.exclude, Reason: q.reason, Terminal: a.person() != nil,
		DurationSeconds: int(q.duration / time.Second),
	}
	if q.changed("upstream") {
		if err := q.ofUpstream(&b); err != nil {
			return b, err
		}
	} else if err := q.ofServer(b); err != nil {
		return b, err
	}
	switch {
	case q.duration < q.minimum || q.duration > q.maximum:
		return b, usage("--duration %v: a drill takes 15s to 5m; a longer one is an outage", q.duration)
	case q.duration%time.Second != 0:
		return b, usage("--duration %v: whole seconds, please", q.duration)
	}
	for _, m := range q.monitors {
		name, kind, _ := strings.Cut(m, "/")
		kind = strings.ToUpper(kind)
		if kind == "" {
			kind = "A"
		}
		if name == "" || kind != "A" && kind != "AAAA" {
			return b, usage("--monitor %q: use NAME, NAME/A or NAME/AAAA", m)
		}
		b.Monitors = append(b.Monitors, run.Monitor{Name: name, Type: kind})
	}
	if q.changedLimits() {
		b.Limits = &run.Limits{Stuck: q.stuck, ErrorPoints: q.points, ExpectSeconds: q.within}
		if wrong := b.Limits.Bounds(); wrong != nil {
			return b, usage("--%s: %s", limitFlags[wrong.Field], wrong.Message)
		}
	}
	return b, nil
}

// limitFlags are the flags of limits, by their fields in a request.
var limitFlags = map[string]string{"stuck": flagStuck, "errorPoints": flagErrors, "expectSeconds": flagExpect}

const (
	flagStuck  = "limit-stuck"
	flagErrors = "limit-errors"
	flagExpect = "expect-seconds"
)

// ofServer says what is plainly wrong with a drill of a server.
func (q *request) ofServer(b view.DrillRequest) error {
	switch {
	case q.everyone && len(q.clients) > 0:
		return usage("--everyone and --clients cannot both be: say --everyone --exclude for all but some")
	case !q.everyone && len(q.clients) == 0:
		return usage("for whom? Say --clients (addresses, prefixes, names or groups) or --everyone")
	case b.Mode != protocol.ModeDrop && b.Mode != protocol.ModeRefused:
		return usage("--mode %q: use drop or refused", q.mode)
	case b.Readiness != protocol.ReadinessFail && b.Readiness != protocol.ReadinessPass:
		return usage("--readiness %q: use fail or pass", q.readiness)
	}
	return nil
}

// ofUpstream makes it a drill of an upstream.
func (q *request) ofUpstream(b *view.DrillRequest) error {
	b.Stage, b.Upstream, b.Readiness = run.StageUpstream, q.upstream, ""
	if !q.changed("mode") {
		b.Mode = run.ModeBlackhole
	}
	spec := run.Spec{Stage: b.Stage, Upstream: b.Upstream, Mode: b.Mode}.WithDefaults()
	for _, flag := range []string{"everyone", "clients", "exclude"} {
		if q.changed(flag) {
			return usage("--%s and --upstream cannot both be: an upstream is away for every client of its server", flag)
		}
	}
	switch {
	case q.changed("readiness"):
		return usage("--readiness and --upstream cannot both be: the server stays ready")
	case q.changed("limit-stuck"):
		return usage("--limit-stuck and --upstream cannot both be: no client of the server is to notice")
	case !spec.AddressesUpstream():
		return usage("--upstream %q: give its address, IP or IP:PORT, as 'firebreak servers -o yaml' lists it", q.upstream)
	case !spec.KnowsMode():
		return usage("--mode %q: with --upstream use blackhole or down", q.mode)
	}
	return nil
}
