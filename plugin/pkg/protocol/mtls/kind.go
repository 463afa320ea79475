package mtls

import (
	"crypto/x509"
	"fmt"
	"slices"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// Kind is what a certificate is for. It decides the names and the key usage
// that a certificate must have to be used as ours.
type Kind int

// The three kinds of certificates. There is none for two of them at once.
const (
	KindServer Kind = iota // a DNS server's control endpoint
	KindAPI                // the controller's API
	KindClient             // a caller: the controller, or a person
)

// String is the kind in an error.
func (k Kind) String() string {
	return [...]string{"server", "API", "client"}[k]
}

// Usage is the only extended key usage that a certificate of this kind has.
func (k Kind) Usage() x509.ExtKeyUsage {
	if k == KindClient {
		return x509.ExtKeyUsageClientAuth
	}
	return x509.ExtKeyUsageServerAuth
}

// Check says whether cert is of this kind, whatever its dates are.
func (k Kind) Check(cert *x509.Certificate) error {
	if len(cert.ExtKeyUsage)+len(cert.UnknownExtKeyUsage) != 1 || !slices.Contains(cert.ExtKeyUsage, k.Usage()) {
		return fmt.Errorf("certificate of %s is not for %s use alone: issue one of the right kind, `firebreak certs` does", Describe(cert), k)
	}
	switch k {
	case KindServer, KindAPI:
		uri := protocol.ServerURI
		if k == KindAPI {
			uri = protocol.APIURI
		}
		if !HasURI(cert, uri) {
			return fmt.Errorf("certificate of %s does not have the URI name %s of a %s: issue one that has, `firebreak certs` does", Describe(cert), uri, k)
		}
	case KindClient:
		_, err := ClientName(cert)
		return err
	}
	return nil
}
