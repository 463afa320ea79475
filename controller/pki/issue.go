package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

const (
	// DefaultValidity of a certificate if nothing is said; less where its CA ends
	// before that.
	DefaultValidity = 365 * day
	// MaxValidity is the longest that may be said.
	MaxValidity = 825 * day
)

// Pair is a certificate and its private key, in PEM, with its CA's certificate.
type Pair struct {
	Cert []byte
	Key  []byte
	CA   []byte
	Leaf *x509.Certificate
}

// Server issues the certificate of a DNS server's control endpoint. One may be
// shared by a fleet: it is known by its URI name, not by an address.
func (ca *CA) Server(validity time.Duration) (*Pair, error) {
	return ca.issue(mtls.KindServer, protocol.ServerURI, "firebreak server", nil, nil, validity)
}

// API issues the certificate of the controller's API, for the given host names
// and addresses as well, so that ordinary HTTPS clients can check it.
func (ca *CA) API(validity time.Duration, hosts ...string) (*Pair, error) {
	return ca.issue(mtls.KindAPI, protocol.APIURI, "firebreak api", hosts, nil, validity)
}

// Client issues a caller's certificate. Roles, if any, are what it may do at the
// controller's API (see Roles); the control endpoints go by the name alone.
func (ca *CA) Client(validity time.Duration, name string, roles ...string) (*Pair, error) {
	if err := mtls.CheckName(name); err != nil {
		return nil, err
	}
	for _, role := range roles {
		if err := mtls.CheckName(role); err != nil {
			return nil, fmt.Errorf("role: %w", err)
		}
	}
	return ca.issue(mtls.KindClient, protocol.ClientURIPrefix+name, name, nil, roles, validity)
}

// Roles are the roles in a caller's certificate, sorted: the organizational
// units of its subject.
func Roles(cert *x509.Certificate) []string {
	return slices.Sorted(slices.Values(cert.Subject.OrganizationalUnit))
}

func (ca *CA) issue(kind mtls.Kind, uri, name string, hosts, roles []string, validity time.Duration) (*Pair, error) {
	until, err := ca.until(validity)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name, OrganizationalUnit: roles},
		NotBefore:             ca.now().Add(-skew),
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{kind.Usage()},
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{u},
	}
	if err := addHosts(template, hosts); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return &Pair{Cert: encodeCert(leaf), Key: keyPEM, CA: encodeCert(ca.cert), Leaf: leaf}, nil
}

// until is when a certificate of the given validity ends.
func (ca *CA) until(validity time.Duration) (time.Time, error) {
	now, end := ca.now(), ca.cert.NotAfter
	if now.After(end) {
		return time.Time{}, fmt.Errorf("the CA %q ended on %s: make a new one, and put both into the CA files while certificates are replaced",
			ca.Name(), end.UTC().Format(time.RFC3339))
	}
	if validity == 0 {
		if until := now.Add(DefaultValidity); until.Before(end) {
			return until, nil
		}
		return end, nil
	}
	if validity < MinValidity || validity > MaxValidity {
		return time.Time{}, fmt.Errorf("a validity of %s is out of bounds: give between %s and %s", validity, MinValidity, MaxValidity)
	}
	until := now.Add(validity)
	if until.After(end) {
		return time.Time{}, fmt.Errorf("the certificate would outlive its CA %q, which ends on %s: ask for less, or make a new CA",
			ca.Name(), end.UTC().Format(time.RFC3339))
	}
	return until, nil
}

// hostName is a DNS name as it may stand in a certificate, a wildcard included.
var hostName = regexp.MustCompile(`^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func addHosts(template *x509.Certificate, hosts []string) error {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		if !hostName.MatchString(host) {
			return fmt.Errorf("%q is neither an IP address nor a host name in lower case: leave out the scheme and the port", host)
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return nil
}
