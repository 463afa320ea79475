package mtls

import (
	"crypto/x509"
	"fmt"
	"regexp"
	"strings"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
)

// clientName is what a caller may be called: it goes into logs, allow lists and
// URIs as it is.
var clientName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?$`)

// CheckName says whether name can be a caller's name.
func CheckName(name string) error {
	if !clientName.MatchString(name) {
		return fmt.Errorf("%q cannot be a caller's name: use 1 to 64 of a-z, 0-9, '.' and '-', with a letter or digit at both ends", name)
	}
	return nil
}

// ClientName is the caller's name in its certificate: the one URI that begins
// with protocol.ClientURIPrefix.
func ClientName(cert *x509.Certificate) (string, error) {
	var name string
	for _, u := range cert.URIs {
		n, ok := strings.CutPrefix(u.String(), protocol.ClientURIPrefix)
		if !ok {
			continue
		}
		if name != "" {
			return "", fmt.Errorf("certificate of %s has more than one caller's name: issue one certificate for each", Describe(cert))
		}
		if err := CheckName(n); err != nil {
			return "", err
		}
		name = n
	}
	if name == "" {
		return "", fmt.Errorf("certificate of %s has no URI name %sNAME, so it is no caller's: use one that was issued to a client", Describe(cert), protocol.ClientURIPrefix)
	}
	return name, nil
}

// HasURI says whether the certificate has exactly this URI among its names.
func HasURI(cert *x509.Certificate, uri string) bool {
	for _, u := range cert.URIs {
		if u.String() == uri {
			return true
		}
	}
	return false
}

// Describe is a certificate in a log line or an error: its URI names, or its
// common name where it has none. All of it may come from a stranger, so it is
// quoted and short.
func Describe(cert *x509.Certificate) string {
	names := make([]string, 0, len(cert.URIs))
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	s := strings.Join(names, " ")
	if s == "" {
		s = cert.Subject.CommonName
	}
	const longest = 128
	if len(s) > longest {
		s = s[:longest] + "..."
	}
	return fmt.Sprintf("%q", s)
}
