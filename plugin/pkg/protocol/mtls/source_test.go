package mtls_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls/mtlstest"
)

// watched is a source on a clock that the test moves.
type watched struct {
	*mtls.Source
	t       *testing.T
	files   mtls.Files
	now     time.Time
	reports []string
}

func watch(t *testing.T, files mtls.Files) *watched {
	t.Helper()
	w := &watched{t: t, files: files, now: time.Now()}
	s, err := mtls.Open(files, mtls.KindServer, func(err error) { w.reports = append(w.reports, err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	s.SetClock(func() time.Time { return w.now })
	w.Source = s
	return w
}

// look reads the keys two seconds later.
func (w *watched) look() *mtls.Keys {
	w.now = w.now.Add(2 * time.Second)
	return w.Keys()
}

func (w *watched) put(path string, content []byte) {
	w.t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// reported wants exactly one report since the last call, with this text.
func (w *watched) reported(want string) {
	w.t.Helper()
	if len(w.reports) != 1 || !strings.Contains(w.reports[0], want) {
		w.t.Errorf("Reports = %q, want one with %q", w.reports, want)
	}
	w.reports = nil
}

func TestSourceFollowsItsFiles(t *testing.T) {
	ca := mtlstest.NewCA(t)
	dir := t.TempDir()
	w := watch(t, ca.Server().Save(t, dir, "server"))
	first := w.Keys()
	if again := w.look(); again != first {
		t.Error("Keys changed although no file did")
	}

	next := ca.Server()
	next.Save(t, dir, "server")
	if w.Keys() != first {
		t.Error("Files were read again within a second")
	}
	second := w.look()
	if second.Generation != 2 || !second.Leaf.Equal(next.Leaf) {
		t.Errorf("Generation = %d, want 2 with the new certificate", second.Generation)
	}

	// The CA alone.
	other := mtlstest.NewCA(t)
	w.put(w.files.CA, append(ca.PEM(), other.PEM()...))
	if third := w.look(); third.Generation != 3 || third.Roots.Equal(second.Roots) {
		t.Error("A second CA in the CA file was not taken")
	}
	if len(w.reports) != 0 {
		t.Errorf("Reports = %q, want none", w.reports)
	}
}

func TestSourceKeepsWhatWorks(t *testing.T) {
	ca := mtlstest.NewCA(t)
	dir := t.TempDir()
	good := ca.Server()
	w := watch(t, good.Save(t, dir, "server"))
	first := w.Keys()
	same := func(what string) {
		t.Helper()
		for range 4 {
			if w.look() != first {
				t.Fatalf("%s replaced the certificate", what)
			}
		}
	}

	w.put(w.files.Cert, []byte("-----BEGIN nonsense"))
	same("A broken file")
	w.reported("going on with the certificate that was read before")

	ca.At(time.Now().Add(-400*24*time.Hour)).Server().Save(t, dir, "server")
	same("An expired certificate")
	w.reported("certificate has expired")

	ca.Client("jane").Save(t, dir, "server")
	same("A client's certificate")
	w.reported("not for server use")

	if err := os.Remove(w.files.Key); err != nil {
		t.Fatal(err)
	}
	same("A missing file")
	w.reported("no such file")

	ca.Server().Save(t, dir, "server")
	if w.look() == first {
		t.Error("A good certificate was not taken after bad ones")
	}
}

// A certificate and its key are written one after the other: what does not fit
// together for a moment is no report.
func TestSourceWaitsForTheSecondFile(t *testing.T) {
	ca := mtlstest.NewCA(t)
	w := watch(t, ca.Server().Save(t, t.TempDir(), "server"))
	next := ca.Server()
	w.put(w.files.Cert, next.Cert)
	if w.look().Generation != 1 {
		t.Error("A certificate without its key was taken")
	}
	w.put(w.files.Key, next.Key)
	if w.look().Generation != 2 {
		t.Error("The pair was not taken when its key came")
	}
	if len(w.reports) != 0 {
		t.Errorf("Reports = %q, want none", w.reports)
	}
}

// An expired certificate does not keep a server from starting: DNS matters more.
func TestOpenTakesAnExpiredCertificate(t *testing.T) {
	ca := mtlstest.NewCA(t)
	dir := t.TempDir()
	w := watch(t, ca.At(time.Now().Add(-400*24*time.Hour)).Server().Save(t, dir, "server"))
	next := ca.Server()
	next.Save(t, dir, "server")
	if !w.look().Leaf.Equal(next.Leaf) {
		t.Error("The renewed certificate was not taken")
	}
}

// A file that holds no CA's certificate is no CA file, whatever else it holds.
func TestCAFileHoldsACA(t *testing.T) {
	ca, other := mtlstest.NewCA(t), mtlstest.NewCA(t)
	pair := ca.Client("alice")
	for name, c := range map[string]struct {
		content []byte
		says    string
	}{
		"the CA's":                 {pair.CA, ""},
		"two CAs'":                 {append(append([]byte{}, pair.CA...), other.Client("x").CA...), ""},
		"a leaf beside it":         {append(append([]byte{}, pair.Cert...), pair.CA...), ""},
		"a leaf":                   {pair.Cert, "no CA's"},
		"another side's leaf":      {ca.Server().Cert, "no CA's"},
		"a key":                    {pair.Key, "no CA certificate"},
		"nothing":                  {nil, "no CA certificate"},
		"no PEM":                   {[]byte("ca"), "no CA certificate"},
		"a certificate cut in two": {[]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "cannot be read"},
	} {
		files := pair.Save(t, t.TempDir(), "alice")
		if err := os.WriteFile(files.CA, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := mtls.Open(files, mtls.KindClient, nil)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), files.CA)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
