package mtls

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Verify checks the other side's chain against roots and that it is of a kind,
// and says in words what to do where it is not. A TLS library's own text names
// the rule, but not the file to change.
func Verify(chain []*x509.Certificate, roots *x509.CertPool, kind Kind, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("no certificate was shown: give one with its key")
	}
	leaf := chain[0]
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{kind.Usage()},
	})
	if err != nil {
		return explain(err, leaf, kind, now)
	}
	return kind.Check(leaf)
}

func explain(err error, leaf *x509.Certificate, kind Kind, now time.Time) error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) {
		switch {
		case invalid.Reason == x509.Expired && now.Before(leaf.NotBefore):
			return fmt.Errorf("certificate of %s is valid only from %s: check the clocks of both machines", Describe(leaf), leaf.NotBefore.UTC().Format(time.RFC3339))
		case invalid.Reason == x509.Expired && now.After(leaf.NotAfter):
			return Expired(leaf)
		case invalid.Reason == x509.IncompatibleUsage:
			return fmt.Errorf("certificate of %s is not for %s use: issue one of the right kind, `firebreak certs` does", Describe(leaf), kind)
		}
	}
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return fmt.Errorf("certificate of %s comes from another CA: both sides need certificates of one CA, or the CA file needs both CAs while they change", Describe(leaf))
	}
	return fmt.Errorf("certificate of %s: %w", Describe(leaf), err)
}
