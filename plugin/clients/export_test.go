package clients

import (
	"bytes"
	golog "log"
	"net/http"
	"sync"
)

// Routes are all routes of the plugin, for tests outside of it.
func Routes(mux *http.ServeMux) {
	seenRoutes(mux)
	recordingRoutes(mux)
}

// CaptureLog is what was logged while f ran.
func CaptureLog(f func()) string {
	var b lockedBuffer
	was := golog.Writer()
	golog.SetOutput(&b)
	defer golog.SetOutput(was)
	f()
	return b.String()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
