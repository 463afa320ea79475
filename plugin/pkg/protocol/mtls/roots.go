package mtls

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// rootsIn are the CA certificates of a PEM file. One that holds only others'
// is refused: nothing that anybody shows could be traced to it, and whoever mixed
// up two files would learn that from the first handshake at best.
func rootsIn(path string, content []byte) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	var leaf *x509.Certificate
	authority := false
	for rest := content; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: a certificate in it cannot be read: %w", path, err)
		}
		roots.AddCert(cert)
		if cert.IsCA || cert.Version < 3 { // older ones cannot say it
			authority = true
		} else {
			leaf = cert
		}
	}
	switch {
	case authority:
		return roots, nil
	case leaf != nil:
		return nil, fmt.Errorf("%s: it holds the certificate of %s and no CA's: give the ca.crt of those who issue the other side's certificates", path, Describe(leaf))
	}
	return nil, fmt.Errorf("%s: no CA certificate in PEM in it", path)
}
