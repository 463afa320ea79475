package run

import (
	"fmt"
	"strings"
)

// Above these shares of what clients get from the other servers, they are no
// servers to send anybody to, whatever is usual for them. REFUSED is often
// policy (an access list, a scan), so it takes more of it than of SERVFAIL.
const (
	mostFailed = 0.20 // SERVFAIL
	mostErrors = 0.50 // SERVFAIL and REFUSED
)

// Usual are the answers that clients got from the other servers while nothing
// had been changed.
type Usual struct {
	Answers  uint64 `json:"answers"`
	ServFail uint64 `json:"servFail"`
	Refused  uint64 `json:"refused"`
	// Slow are those servers half of whose answers come too late.
	Slow []string `json:"slow,omitempty"`
}

// tooMany says that these are not answers to rely on, "" where they are.
func (u *Usual) tooMany() string {
	if u == nil || u.Answers == 0 {
		return ""
	}
	errors := u.ServFail + u.Refused
	for _, x := range []struct {
		n    uint64
		most float64
		what string
	}{{u.ServFail, mostFailed, "SERVFAIL"}, {errors, mostErrors, "SERVFAIL or REFUSED"}} {
		if share := float64(x.n) / float64(u.Answers); x.n >= minErrors && share > x.most {
			return fmt.Sprintf("%d of the %d answers that clients got from the other servers just now were %s (%.1f %%, at most %.0f %%): with those they would have to do",
				x.n, u.Answers, x.what, 100*share, 100*x.most)
		}
	}
	if len(u.Slow) > 0 {
		return fmt.Sprintf("half of the answers that clients got from %s just now took more than %.0f s: many clients give up before that, and with those they would have to do",
			strings.Join(u.Slow, " and from "), tooSlow.Seconds())
	}
	return ""
}

// usual is what the run has read of the other servers so far.
func (r *Run) usual() *Usual {
	t := r.survivors((*Meter).baseline)
	return &Usual{Answers: t.answers, ServFail: t.failed, Refused: t.errors_ - t.failed, Slow: r.slow((*Meter).baseline)}
}
