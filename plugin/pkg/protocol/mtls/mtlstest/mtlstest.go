// Package mtlstest makes certificates for tests of what uses package mtls,
// wrong ones included. Plugins cannot use the CA of controller/pki: they import
// nothing of the controller.
package mtlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// CA issues certificates in a test.
type CA struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  time.Time
}

// Pair is a certificate with its key and its CA's certificate, in PEM.
type Pair struct {
	Cert, Key, CA []byte
	Leaf          *x509.Certificate
}

// NewCA makes a CA.
func NewCA(t testing.TB) *CA {
	ca := &CA{t: t, now: time.Now()}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "test CA"},
		NotBefore:             ca.now.Add(-10 * 365 * 24 * time.Hour),
		NotAfter:              ca.now.Add(10 * 365 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	ca.key = ca.newKey()
	ca.cert = ca.create(template, template, ca.key)
	return ca
}

// At is the same CA as it issued at another time. Certificates last a year.
func (ca *CA) At(now time.Time) *CA {
	return &CA{t: ca.t, cert: ca.cert, key: ca.key, now: now}
}

// Until issues a caller's certificate that ends then.
func (ca *CA) Until(end time.Time, name string) *Pair {
	return ca.issue(protocol.ClientURIPrefix+name, end, x509.ExtKeyUsageClientAuth)
}

// Server issues a DNS server's certificate.
func (ca *CA) Server() *Pair { return ca.Odd(protocol.ServerURI, x509.ExtKeyUsageServerAuth) }

// API issues the API's certificate.
func (ca *CA) API() *Pair { return ca.Odd(protocol.APIURI, x509.ExtKeyUsageServerAuth) }

// Client issues a caller's certificate.
func (ca *CA) Client(name string) *Pair {
	return ca.Odd(protocol.ClientURIPrefix+name, x509.ExtKeyUsageClientAuth)
}

// Odd issues whatever is asked for.
func (ca *CA) Odd(uri string, usages ...x509.ExtKeyUsage) *Pair {
	return ca.issue(uri, ca.now.Add(365*24*time.Hour), usages...)
}

// Pool holds the CA's certificate.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// PEM is the CA's certificate.
func (ca *CA) PEM() []byte { return encode("CERTIFICATE", ca.cert.Raw) }

func (ca *CA) issue(uri string, end time.Time, usages ...x509.ExtKeyUsage) *Pair {
	ca.t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		ca.t.Fatal(err)
	}
	key := ca.newKey()
	leaf := ca.create(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "test"},
		NotBefore:             ca.now.Add(-time.Hour),
		NotAfter:              end,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           usages,
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{u},
	}, ca.cert, key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return &Pair{Cert: encode("CERTIFICATE", leaf.Raw), Key: encode("PRIVATE KEY", der), CA: ca.PEM(), Leaf: leaf}
}

func (ca *CA) create(template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	ca.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), ca.key)
	if err != nil {
		ca.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return cert
}

func (ca *CA) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	return key
}

// Save writes NAME.crt, NAME.key and NAME.ca, each of them at once.
func (p *Pair) Save(t testing.TB, dir, name string) mtls.Files {
	t.Helper()
	files := mtls.Files{
		Cert: filepath.Join(dir, name+".crt"),
		Key:  filepath.Join(dir, name+".key"),
		CA:   filepath.Join(dir, name+".ca"),
	}
	for path, content := range map[string][]byte{files.Cert: p.Cert, files.Key: p.Key, files.CA: p.CA} {
		if err := os.WriteFile(path+".tmp", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".tmp", path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
