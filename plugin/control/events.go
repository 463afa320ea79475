package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

const (
	// maxStreams of events, in all and for each caller: each costs a goroutine
	// and a state per change.
	maxStreams          = 32
	maxStreamsPerCaller = 8
	// heartbeat is how often a stream says that it is alive, so that both ends
	// notice when the other is gone.
	heartbeat = 15 * time.Second
	// eventGap is the least time between two states in a stream: what changes
	// faster is sent as one.
	eventGap = 50 * time.Millisecond
	// eventWithin is how long a write to a stream may take.
	eventWithin = 10 * time.Second
)

type serverKey struct{}

func withServer(r *http.Request, s *server) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), serverKey{}, s))
}

// serveEvents streams the state: once at first, and on each change. A stream
// lives on across reloads; what it sends is always the present Corefile's.
func serveEvents(w http.ResponseWriter, r *http.Request) {
	s := r.Context().Value(serverKey{}).(*server)
	caller := Caller(r)
	if !s.streams.take(caller) {
		busy(w, "as many event streams as there may be are open")
		return
	}
	defer s.streams.give(caller)
	subscribers.Inc()
	defer subscribers.Dec()

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	st := &stream{w: w, rc: http.NewResponseController(w)}
	if st.rc.SetReadDeadline(time.Time{}) != nil { // nothing more is to be read
		return
	}
	st.run(r.Context(), s)
}

// stream is one caller's event stream.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (st *stream) run(ctx context.Context, s *server) {
	peer := peerOf(ctx)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		ring := changes.wait()
		if peer.check(s.current.Load()) != nil { // it says why at the next call
			return
		}
		if st.state(s.current.Load().state()) != nil {
			return
		}
		gap := time.After(eventGap)
		for rung := false; !rung; {
			select {
			case <-ring:
				rung = true
			case <-beat.C:
				if peer.check(s.current.Load()) != nil || st.write(": alive\n\n") != nil {
					return
				}
			case <-ctx.Done():
				return
			case <-s.done:
				return
			}
		}
		select {
		case <-gap:
		case <-ctx.Done():
			return
		case <-s.done:
			return
		}
	}
}

func (st *stream) state(state *protocol.State) error {
	body, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return st.write(fmt.Sprintf("event: state\ndata: %s\n\n", body))
}

func (st *stream) write(text string) error {
	if err := st.rc.SetWriteDeadline(time.Now().Add(eventWithin)); err != nil {
		return err
	}
	if _, err := st.w.Write([]byte(text)); err != nil {
		return err
	}
	return st.rc.Flush()
}
