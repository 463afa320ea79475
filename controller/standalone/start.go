package standalone

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"firebreakdns.io/firebreak/controller/fleet"
	"firebreakdns.io/firebreak/controller/run"
)

// refusal is a drill that a guard refused.
type refusal struct {
	checks []run.Check // all of them
	first  run.Check   // that refused
	field  string      // of the request that it is about, "" for none
}

func (r *refusal) Error() string { return fmt.Sprintf("%s: %s", r.first.Reason, r.first.Message) }

// unresolved are clients that are not known.
type unresolved []fleet.Unresolved

func (u unresolved) Error() string { return u[0].Field + ": " + u[0].Message }

var errClosing = errors.New("the controller shuts down: ask again in a moment")

// complete gives a spec what the controller knows: an ID, the waits, a token.
func (c *Controller) complete(spec run.Spec) (run.Spec, error) {
	config := c.newest()
	now := c.now().UTC()
	spec.Fleet, spec.Timings, spec.Requested = config.Fleet, c.timings, now
	if len(spec.Monitors) == 0 {
		spec.Monitors = config.Monitors
	}
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return spec, err
	}
	spec.ProbeToken = hex.EncodeToString(token)
	tail, err := randomWord(4)
	if err != nil {
		return spec, err
	}
	spec.ID = strings.Join([]string{now.Format("20060102-150405"), idPart(spec.Server), tail}, "-")
	return spec, nil
}

// idPart is what of a server's name may stand in an ID. One that was misspelt
// is refused by a guard; until then it needs an ID all the same.
func idPart(server string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(server))
	return out[:min(len(out), 40)]
}

func randomWord(n int) (string, error) {
	const letters = "abcdefghjkmnpqrstuvwxyz23456789" // none that look alike
	out := make([]byte, n)
	for i := range out {
		k, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", err
		}
		out[i] = letters[k.Int64()]
	}
	return string(out), nil
}

// look gathers what guards and plans judge by, now.
func (c *Controller) look(ctx context.Context, spec run.Spec) (run.Facts, error) {
	f := c.current()
	c.store.check() // what it was at the last write may be long ago
	f.Refresh(ctx)
	facts := c.facts(spec)
	f.AddSeen(ctx, &facts)
	if missing := c.resolve(spec, &facts); len(missing) > 0 {
		return facts, unresolved(missing)
	}
	return facts, ctx.Err()
}

// plan says what a drill would do.
func (c *Controller) plan(ctx context.Context, spec run.Spec) (run.Plan, error) {
	spec, err := c.complete(spec)
	if err != nil {
		return run.Plan{}, err
	}
	facts, err := c.look(ctx, spec)
	if err != nil {
		return run.Plan{}, err
	}
	return run.MakePlan(spec, facts), nil
}

// start asks the guards and starts a run. It is the only door: whoever comes
// second finds the first one's drill on.
func (c *Controller) start(ctx context.Context, spec run.Spec) (*drive, error) {
	c.starting.Lock()
	defer c.starting.Unlock()
	spec, err := c.complete(spec)
	if err != nil {
		return nil, err
	}
	c.applyPending()
	facts, err := c.look(ctx, spec)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if closing {
		return nil, errClosing
	}
	checks := run.Guards(spec, facts)
	if no := run.FirstRefusal(checks); no != nil {
		return nil, &refusal{checks: checks, first: *no, field: fieldOf(no.Reason, spec, &facts)}
	}
	r := run.New(spec, c.now())
	if err := c.store.save(&r); err != nil {
		return nil, cannotWrite(checks, err)
	}
	c.audit.Info("start", "by", spec.By, "run", spec.ID, "server", spec.Server, "upstream", spec.Upstream, "mode", spec.Mode, "seconds", spec.Seconds,
		"everyone", spec.Everyone, "clients", spec.Clients, "exclude", spec.Exclude, "reason", spec.Reason)
	return c.drive(r, false), nil
}

// refusedRun keeps a schedule's refusal: once per chance, so that it is seen
// where its reports are.
func (c *Controller) refusedRun(spec run.Spec, reason run.Reason, message string) error {
	spec, err := c.complete(spec)
	if err != nil {
		return err
	}
	now := c.now()
	r := run.New(spec, now)
	r.Phase, r.Since = run.Refused, now
	r.Outcome, r.Reason, r.Message = run.Refusal, reason, message
	r.Timeline = append(r.Timeline, run.Event{At: now, What: "refused: " + message})
	return c.store.save(&r)
}

// stopDrill ends the drill of a server, "" for whichever is on, and returns it
// a moment later.
func (c *Controller) stopDrill(server string, w run.StopWish) (*drive, bool) {
	d := c.on()
	if d == nil || server != "" && d.snapshot().Spec.Server != server {
		return nil, false
	}
	c.audit.Info("stop", "by", w.By, "run", d.id, "why", w.Why)
	d.wish(w)
	for deadline := c.now().Add(2 * time.Second); d.touching() && c.now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	return d, true
}
