package control

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// auditCall writes the line of a call that changed something, or was to, or
// that was refused: who, from where, what, and the answer.
func auditCall(r *http.Request, caller string, status int, reason protocol.Reason) {
	line := fmt.Sprintf("audit: caller=%s from=%s method=%s path=%q status=%d", caller, r.RemoteAddr, r.Method, r.URL.Path, status)
	if reason != "" {
		line += " reason=" + string(reason)
	}
	log.Info(line)
}

// auditConnection writes the line of a connection that was not let in. Anybody
// can make those, so they are written for a while and then counted.
func auditConnection(from net.Addr, err error) {
	ok, missed := strangers.allow(time.Now())
	if !ok {
		return
	}
	line := fmt.Sprintf("audit: connection refused from=%s error=%q", from, err.Error())
	if missed > 0 {
		line += fmt.Sprintf(" (%d more were not logged)", missed)
	}
	log.Warning(line)
}

// strangers bounds the lines that strangers can cause.
var strangers = &throttle{burst: 20, every: time.Second}

// throttle lets a burst through and then one at a time.
type throttle struct {
	burst float64
	every time.Duration

	mu     sync.Mutex
	left   float64
	last   time.Time
	missed int
}

// allow says whether one more may pass, and how many were held back since the
// last one that did.
func (t *throttle) allow(now time.Time) (ok bool, missed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.IsZero() {
		t.left = t.burst
	} else {
		t.left = min(t.burst, t.left+float64(now.Sub(t.last))/float64(t.every))
	}
	t.last = now
	if t.left < 1 {
		t.missed++
		return false, 0
	}
	t.left--
	missed, t.missed = t.missed, 0
	return true, missed
}
