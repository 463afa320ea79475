package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"
)

const (
	// DefaultCAValidity is how long a CA lasts if nothing is said.
	DefaultCAValidity = 10 * 365 * day
	// MaxCAValidity is the longest that may be said.
	MaxCAValidity = 30 * 365 * day
	// MinValidity is the shortest of all: a certificate that is over before it has
	// been copied is a mistake.
	MinValidity = time.Minute

	day = 24 * time.Hour
	// skew is how far the clocks of two machines may be apart.
	skew = 5 * time.Minute
)

// CA issues certificates.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  func() time.Time
}

// NewCA makes a CA. Validity 0 is DefaultCAValidity.
func NewCA(name string, validity time.Duration) (*CA, error) {
	return newCA(name, validity, time.Now)
}

func newCA(name string, validity time.Duration, now func() time.Time) (*CA, error) {
	if name == "" {
		return nil, fmt.Errorf("a CA needs a name: it is what people see in a certificate that it issued")
	}
	if validity == 0 {
		validity = DefaultCAValidity
	}
	if validity < MinValidity || validity > MaxCAValidity {
		return nil, fmt.Errorf("a CA's validity of %s is out of bounds: give between %s and %s", validity, MinValidity, MaxCAValidity)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now().Add(-skew),
		NotAfter:              now().Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // it issues no other CA
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &CA{cert: cert, key: key, now: now}, nil
}

// At is the same CA as it would issue at another time: for tests.
func (ca *CA) At(t time.Time) *CA {
	return &CA{cert: ca.cert, key: ca.key, now: func() time.Time { return t }}
}

// Name is the one it was made with.
func (ca *CA) Name() string { return ca.cert.Subject.CommonName }

// NotAfter is when it ends.
func (ca *CA) NotAfter() time.Time { return ca.cert.NotAfter }
