package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// ServerConfig asks every caller for a client certificate of the keys' CA. Each
// connection uses the keys as they are then (Source.Keys).
//
// There are no session tickets: a resumed session would outlive a CA that was
// taken out of the file.
func ServerConfig(current func() *Keys) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			keys := current()
			return &tls.Config{
				MinVersion:             tls.VersionTLS13,
				NextProtos:             []string{"http/1.1"},
				SessionTicketsDisabled: true,
				Certificates:           []tls.Certificate{keys.Certificate},
				// Verified below: the same rules, with errors that say what to do.
				ClientAuth: tls.RequireAnyClientCert,
				ClientCAs:  keys.Roots,
				VerifyConnection: func(cs tls.ConnectionState) error {
					return Verify(cs.PeerCertificates, keys.Roots, KindClient, time.Now())
				},
			}, nil
		},
	}
}

// ClientConfig is for calling a server of the given kind: its chain must lead to
// the keys' CA and its name be the kind's URI. Host names and addresses are
// not looked at.
func ClientConfig(current func() *Keys, kind Kind) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &current().Certificate, nil
		},
		InsecureSkipVerify: true, //nolint:gosec // verified below, by URI name instead of host name
		VerifyConnection: func(cs tls.ConnectionState) error {
			if err := Verify(cs.PeerCertificates, current().Roots, kind, time.Now()); err != nil {
				return fmt.Errorf("the %s at the other end cannot be trusted: %w", kind, err)
			}
			return nil
		},
	}
}

// Peer is the verified certificate at the other end.
func Peer(cs *tls.ConnectionState) (*x509.Certificate, error) {
	if cs == nil || len(cs.PeerCertificates) == 0 {
		return nil, errors.New("no certificate was shown")
	}
	return cs.PeerCertificates[0], nil
}
