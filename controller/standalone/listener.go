package standalone

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"firebreakdns.io/firebreak/controller/pki"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// listener is one address at which the controller is asked.
type listener struct {
	where string
	net   net.Listener
	http  *http.Server
	tls   bool
}

// listen opens the API, and the metrics' own address where there is one. The
// API comes first.
func (c *Controller) listen() (out []*listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range out {
				l.close()
			}
		}
	}()
	api := c.config.API
	where := api.Listen
	if where == "" {
		where = "unix://" + filepath.Join(c.options.State, "api.sock")
	}
	l := &listener{where: where, http: c.server(c.api())}
	if path, unix := strings.CutPrefix(where, "unix://"); unix {
		if l.net, err = listenUnix(path); err != nil {
			return nil, fmt.Errorf("api: %w", err)
		}
		l.http.ConnContext = withPeer
	} else {
		config, err := pki.APIServer(c.config.Files(api.TLS), func(err error) { c.log.Error("API certificate not taken", "error", err) })
		if err != nil {
			return nil, fmt.Errorf("api: %w", err)
		}
		if l.net, err = net.Listen("tcp", where); err != nil {
			return nil, fmt.Errorf("api: %w", err)
		}
		l.where, l.tls, l.http.TLSConfig = "https://"+l.net.Addr().String(), true, config
	}
	out = append(out, l)
	if m := c.config.Metrics.Listen; m != "" {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", c.metrics.handler(c))
		l := &listener{where: "http://" + m, http: c.server(mux)}
		if l.net, err = net.Listen("tcp", m); err != nil {
			return out, fmt.Errorf("metrics: %w", err)
		}
		out = append(out, l)
	}
	return out, nil
}

func (c *Controller) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(handshakes{c.audit}, "", 0),
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // HTTP/1.1 only
	}
}

// handshakes tells of callers that TLS turned away: they got no problem
// document, so it is the only place where it is said why.
type handshakes struct{ audit *slog.Logger }

func (h handshakes) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if why, ok := strings.CutPrefix(text, "http: TLS handshake error from "); ok {
		h.audit.Warn("refused", "by", "a caller that showed no certificate of ours", "why", why)
	} else {
		h.audit.Warn("http", "error", text)
	}
	return len(line), nil
}

// listenUnix opens a socket of mode 0600. One that a process left behind is
// replaced; we hold the state folder's lock, so it is not another's of ours.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%s is there already, and no socket: remove it, or listen elsewhere", path)
		}
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("another process listens on %s: stop it, or listen elsewhere", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	// Made under a name in a folder of ours, so that nobody can open it before
	// its mode is set.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".sock-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *listener) serve() error {
	var err error
	if l.tls {
		err = l.http.ServeTLS(l.net, "", "")
	} else {
		err = l.http.Serve(l.net)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", l.where, err)
}

// close lets calls that are on end, for a moment.
func (l *listener) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if l.http.Shutdown(ctx) != nil {
		l.http.Close()
	}
	l.net.Close()
	if path, unix := strings.CutPrefix(l.where, "unix://"); unix {
		_ = os.Remove(path) // gone already is as good
	}
}

type peerKey struct{}

// withPeer notes who is at the other end of a unix socket.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, peerName(conn))
}

// caller is who asks, by certificate or by unix socket, and whether it is known.
func caller(r *http.Request) (name string, local bool, err error) {
	if name, ok := r.Context().Value(peerKey{}).(string); ok {
		return name, true, nil
	}
	cert, err := mtls.Peer(r.TLS)
	if err != nil {
		return "", false, err
	}
	name, err = mtls.ClientName(cert)
	return name, false, err
}
