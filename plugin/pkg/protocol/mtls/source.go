package mtls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// recheckEvery is how often the files are read at most. They are three small
// files, so their content is compared: times and sizes miss a quick second write.
const recheckEvery = time.Second

// Files are the PEM files of one side.
type Files struct {
	Cert string // our certificate, with intermediates after it
	Key  string // its private key
	CA   string // who issues the other side's certificates
}

// Keys are one consistent reading of Files.
type Keys struct {
	Certificate tls.Certificate
	Leaf        *x509.Certificate
	Roots       *x509.CertPool
	Generation  uint64 // counts readings that were taken, from 1
}

// Source hands out the Keys in Files, and re-reads them when they change. It
// has no goroutine: it looks when it is asked.
type Source struct {
	files  Files
	kind   Kind
	report func(error) // a change that was not taken

	mu      sync.Mutex
	now     func() time.Time
	checked time.Time
	seen    [3][]byte // what was last tried, taken or not; nil: could not be read
	settled bool      // seen was taken, or reported
	keys    *Keys
}

// Open reads the files. They must be there and fit together; a certificate that
// has expired is taken, so that whoever opens it can start and say so, and is
// replaced as soon as there is a better one. report, if not nil, is told once of
// each later change that cannot be used.
func Open(files Files, kind Kind, report func(error)) (*Source, error) {
	if report == nil {
		report = func(error) {}
	}
	s := &Source{files: files, kind: kind, report: report, now: time.Now}
	content, err := files.read()
	if err != nil {
		return nil, err
	}
	keys, err := parse(files, kind, content)
	if err != nil {
		return nil, err
	}
	keys.Generation = 1
	s.keys, s.seen, s.settled, s.checked = keys, content, true, s.now()
	return s, nil
}

// Files are the ones it was opened with.
func (s *Source) Files() Files { return s.files }

// Keys are the current ones.
func (s *Source) Keys() *Keys {
	s.mu.Lock()
	now := s.now()
	var failed error
	if now.Sub(s.checked) >= recheckEvery {
		s.checked = now
		failed = s.recheck(now)
	}
	keys := s.keys
	s.mu.Unlock()
	if failed != nil {
		s.report(failed)
	}
	return keys
}

// recheck takes over what has changed, if it can be used. A certificate and its
// key are two files, and one of them is written first, so what cannot be used is
// reported only when it is still so at the next look. s.mu is held.
func (s *Source) recheck(now time.Time) error {
	content, readErr := s.files.read()
	again := same(content, s.seen)
	if again && s.settled {
		return nil
	}
	s.seen, s.settled = content, again
	keys, err := (*Keys)(nil), readErr
	if err == nil {
		keys, err = parse(s.files, s.kind, content)
	}
	if err == nil && now.After(keys.Leaf.NotAfter) {
		err = fmt.Errorf("%s: %w", s.files.Cert, Expired(keys.Leaf))
	}
	if err != nil {
		if !again {
			return nil
		}
		return fmt.Errorf("%w; going on with the certificate that was read before", err)
	}
	s.settled = true
	keys.Generation = s.keys.Generation + 1
	s.keys = keys
	return nil
}

func same(a, b [3][]byte) bool {
	for i := range a {
		if (a[i] == nil) != (b[i] == nil) || !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// read reads the three files.
func (f Files) read() (content [3][]byte, err error) {
	for i, name := range []string{f.Cert, f.Key, f.CA} {
		if content[i], err = os.ReadFile(name); err != nil {
			content[i] = nil
			return content, fmt.Errorf("certificate files: %w", err)
		}
	}
	return content, nil
}

func parse(f Files, kind Kind, content [3][]byte) (*Keys, error) {
	cert, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, err)
	}
	if cert.Leaf == nil {
		return nil, fmt.Errorf("%s: no certificate in it", f.Cert)
	}
	if err := kind.Check(cert.Leaf); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Cert, err)
	}
	roots, err := rootsIn(f.CA, content[2])
	if err != nil {
		return nil, err
	}
	return &Keys{Certificate: cert, Leaf: cert.Leaf, Roots: roots}, nil
}

// ErrExpired is wrapped by Expired.
var ErrExpired = errors.New("certificate has expired")

// Expired says that cert's time is over, and what to do.
func Expired(cert *x509.Certificate) error {
	return fmt.Errorf("%w: %s was valid until %s; issue a new one (firebreak certs) and put it in the same file, it is read without a restart",
		ErrExpired, Describe(cert), cert.NotAfter.UTC().Format(time.RFC3339))
}
