package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

func newTestCA(t *testing.T) *CA {
	t.Helper()
	ca, err := NewCA("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestKindsAreApart(t *testing.T) {
	ca := newTestCA(t)
	pairs := map[mtls.Kind]*Pair{}
	var err error
	if pairs[mtls.KindServer], err = ca.Server(0); err != nil {
		t.Fatal(err)
	}
	if pairs[mtls.KindAPI], err = ca.API(0, "api.example.org", "192.0.2.1", "2001:db8::1"); err != nil {
		t.Fatal(err)
	}
	if pairs[mtls.KindClient], err = ca.Client(0, "jane", "operator", "viewer"); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pairs[mtls.KindServer].CA)
	for is, pair := range pairs {
		for as := range pairs {
			err := mtls.Verify([]*x509.Certificate{pair.Leaf}, pool, as, time.Now())
			if (err == nil) != (is == as) {
				t.Errorf("Certificate of a %s used as %s = %v", is, as, err)
			}
		}
	}
	if got := Roles(pairs[mtls.KindClient].Leaf); !slices.Equal(got, []string{"operator", "viewer"}) {
		t.Errorf("Roles = %q, want operator and viewer", got)
	}
	for _, host := range []string{"api.example.org", "192.0.2.1", "2001:db8::1"} {
		if err := pairs[mtls.KindAPI].Leaf.VerifyHostname(host); err != nil {
			t.Errorf("VerifyHostname(%s) = %v", host, err)
		}
	}
}

func TestBounds(t *testing.T) {
	ca := newTestCA(t)
	tests := map[string]func() error{
		"CA without a name":         func() error { _, err := NewCA("", 0); return err },
		"CA for a second":           func() error { _, err := NewCA("x", time.Second); return err },
		"CA for a century":          func() error { _, err := NewCA("x", 100*365*day); return err },
		"leaf for a second":         func() error { _, err := ca.Server(time.Second); return err },
		"leaf for ten years":        func() error { _, err := ca.Server(10 * 365 * day); return err },
		"leaf outlives its CA":      func() error { _, err := ca.At(ca.NotAfter().Add(-day)).Server(2 * day); return err },
		"CA has ended":              func() error { _, err := ca.At(ca.NotAfter().Add(day)).Server(0); return err },
		"caller with a bad name":    func() error { _, err := ca.Client(0, "Jane Doe"); return err },
		"caller with a bad role":    func() error { _, err := ca.Client(0, "jane", "a b"); return err },
		"API with a URL for a host": func() error { _, err := ca.API(0, "https://api.example.org"); return err },
	}
	for name, do := range tests {
		if do() == nil {
			t.Errorf("%s = nil, want an error", name)
		}
	}
	late, err := ca.At(ca.NotAfter().Add(-day)).Server(0)
	if err != nil || !late.Leaf.NotAfter.Equal(ca.NotAfter()) {
		t.Errorf("Certificate in a CA's last day = %v, want one until the CA's end", err)
	}
}

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	ca := newTestCA(t)
	if err := ca.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := newTestCA(t).Save(dir); !errors.Is(err, ErrExists) {
		t.Errorf("Save over a CA = %v, want ErrExists", err)
	}
	loaded, err := LoadCA(dir)
	if err != nil || !loaded.cert.Equal(ca.cert) {
		t.Fatalf("LoadCA = %v, want the CA that was saved", err)
	}
	pair, err := loaded.Client(time.Hour, "jane")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a renewal replaces
		if _, err := pair.Save(dir, "jane"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pair.Save(dir, "ca"); err == nil {
		t.Error("Save over the CA's key = nil, want an error")
	}
	for name, mode := range map[string]os.FileMode{"ca.key": 0o600, "jane.key": 0o600, "ca.crt": 0o644, "jane.crt": 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("Mode of %s = %v (%v), want %v", name, info.Mode().Perm(), err, mode)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("Left behind: %q", left)
	}
}

func TestOnlyOneCAIsSaved(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	saved := make(chan *CA, 8)
	for range 8 {
		ca := newTestCA(t)
		wg.Go(func() {
			if ca.Save(dir) == nil {
				saved <- ca
			}
		})
	}
	wg.Wait()
	if len(saved) != 1 {
		t.Fatalf("%d CAs were saved into one folder, want 1", len(saved))
	}
	if loaded, err := LoadCA(dir); err != nil || !loaded.cert.Equal((<-saved).cert) {
		t.Errorf("LoadCA = %v, want the one that was saved", err)
	}
}

func TestLoadCARefuses(t *testing.T) {
	ca, other := newTestCA(t), newTestCA(t)
	otherKey, err := encodeKey(other.key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := encodeKey(ca.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Server(0)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		cert, key []byte
		want      string
	}{
		"another's key": {encodeCert(ca.cert), otherKey, "is not the key of"},
		"no PEM":        {[]byte("text"), key, "no certificate in PEM"},
		"no CA":         {leaf.Cert, leaf.Key, "not a CA's"},
		"no key":        {encodeCert(ca.cert), []byte("text"), "no private key"},
	} {
		dir := t.TempDir()
		for file, content := range map[string][]byte{CACertFile: tc.cert, CAKeyFile: tc.key} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := LoadCA(dir); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("LoadCA with %s = %v, want %q", name, err, tc.want)
		}
	}
	if _, err := LoadCA(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("LoadCA of an empty folder = %v, want ErrNotExist", err)
	}
}

func TestConfigs(t *testing.T) {
	ca, dir := newTestCA(t), t.TempDir()
	save := func(name string, pair *Pair, err error) mtls.Files {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		files, err := pair.Save(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	must := func(c *tls.Config, err error) *tls.Config {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	pair, err := ca.API(0, "127.0.0.1")
	api := save("api", pair, err)
	pair, err = ca.Client(0, "jane")
	jane := save("jane", pair, err)

	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, err := mtls.ClientName(r.TLS.PeerCertificates[0])
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, name)
	}))
	srv.TLS = must(APIServer(api, nil))
	srv.StartTLS()
	defer srv.Close()

	get := func(c *tls.Config) (string, error) {
		transport := &http.Transport{TLSClientConfig: c}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get(srv.URL)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	if name, err := get(must(ToAPI(jane, nil))); err != nil || name != "jane" {
		t.Errorf("Call of the API = %q, %v, want jane", name, err)
	}
	if _, err := get(must(ToServer(jane, nil))); err == nil || !strings.Contains(err.Error(), "cannot be trusted") {
		t.Errorf("Call of the API where a server is wanted = %v, want that it cannot be trusted", err)
	}
	if _, err := ToAPI(api, nil); err == nil {
		t.Error("ToAPI with the API's own certificate = nil, want an error")
	}
}
