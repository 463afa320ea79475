// Package fleettest stands in for DNS servers in tests: control endpoints that
// keep the contract of plugin/pkg/protocol, with DNS and readiness beside them,
// and a CA for both sides. What real servers do is tested with real servers, in
// test/e2e.
package fleettest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// CA issues certificates into a folder.
type CA struct {
	t    testing.TB
	Dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu     sync.Mutex
	issued map[string]mtls.Files
}

// NewCA makes a CA in a folder of its own.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{t: t, Dir: t.TempDir(), issued: map[string]mtls.Files{}}
	ca.key = newKey(t)
	ca.cert = ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour),
	}, nil, &ca.key.PublicKey, "ca.pem")
	return ca
}

// Server is a certificate for a control endpoint.
func (ca *CA) Server(name string) mtls.Files {
	return ca.issue(name, protocol.ServerURI, x509.ExtKeyUsageServerAuth, time.Hour)
}

// API is a certificate for the controller's API.
func (ca *CA) API(name string) mtls.Files {
	return ca.issue(name, protocol.APIURI, x509.ExtKeyUsageServerAuth, time.Hour)
}

// Client is a certificate for the caller of that name.
func (ca *CA) Client(name string) mtls.Files {
	return ca.issue("client-"+name, protocol.ClientURIPrefix+name, x509.ExtKeyUsageClientAuth, time.Hour)
}

// Expired is one whose time is over.
func (ca *CA) Expired(name string) mtls.Files {
	return ca.issue("expired-"+name, protocol.ClientURIPrefix+name, x509.ExtKeyUsageClientAuth, -time.Minute)
}

// issue makes a certificate, or hands out the one that it made before: somebody
// may be reading its files.
func (ca *CA) issue(file, uri string, usage x509.ExtKeyUsage, life time.Duration) mtls.Files {
	ca.t.Helper()
	ca.mu.Lock()
	defer ca.mu.Unlock()
	if f, ok := ca.issued[file]; ok {
		return f
	}
	u, err := url.Parse(uri)
	if err != nil {
		ca.t.Fatal(err)
	}
	key := newKey(ca.t)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	ca.write(file+".key", "EC PRIVATE KEY", der)
	ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: file}, URIs: []*url.URL{u}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		KeyUsage: x509.KeyUsageDigitalSignature, NotAfter: time.Now().Add(life),
	}, ca.cert, &key.PublicKey, file+".pem")
	ca.issued[file] = mtls.Files{Cert: filepath.Join(ca.Dir, file+".pem"), Key: filepath.Join(ca.Dir, file+".key"), CA: filepath.Join(ca.Dir, "ca.pem")}
	return ca.issued[file]
}

func (ca *CA) sign(c, parent *x509.Certificate, public *ecdsa.PublicKey, file string) *x509.Certificate {
	ca.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		ca.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore = serial, time.Now().Add(-time.Hour)
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	ca.write(file, "CERTIFICATE", der)
	out, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return out
}

func (ca *CA) write(file, kind string, der []byte) {
	ca.t.Helper()
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(filepath.Join(ca.Dir, file), data, 0o600); err != nil {
		ca.t.Fatal(err)
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
