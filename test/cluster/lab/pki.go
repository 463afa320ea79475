package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is how long a cluster's certificates are good for.
const validity = 30 * 24 * time.Hour

// authority is a certificate authority of a cluster.
type authority struct {
	cert    *x509.Certificate
	certPEM []byte
	key     *ecdsa.PrivateKey
	keyPEM  []byte
}

// pair is a certificate and its key, in PEM.
type pair struct{ cert, key []byte }

func newAuthority(name string) (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template := certificate(pkix.Name{CommonName: name})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, certPEM: encode("CERTIFICATE", der), key: key, keyPEM: keyPEM}, err
}

// client makes the certificate of a user with its groups.
func (a *authority) client(user string, groups ...string) (pair, error) {
	template := certificate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

// server makes the certificate of a server with its names and addresses.
func (a *authority) server(name string, names []string, addrs []net.IP) (pair, error) {
	template := certificate(pkix.Name{CommonName: name})
	template.DNSNames, template.IPAddresses = names, addrs
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	return pair{cert: encode("CERTIFICATE", der), key: keyPEM}, err
}

// save writes the authority for another process to sign with.
func (a *authority) save(dir, name string) error {
	return pair{cert: a.certPEM, key: a.keyPEM}.save(dir, name)
}

func loadAuthority(dir, name string) (*authority, error) {
	certPEM, err1 := os.ReadFile(filepath.Join(dir, name+".crt"))
	keyPEM, err2 := os.ReadFile(filepath.Join(dir, name+".key"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("the cluster's certificate authority in " + dir + " is damaged; take the cluster down")
	}
	cert, err1 := x509.ParseCertificate(certBlock.Bytes)
	key, err2 := x509.ParseECPrivateKey(keyBlock.Bytes)
	return &authority{cert: cert, certPEM: certPEM, key: key, keyPEM: keyPEM}, errors.Join(err1, err2)
}

// save writes NAME.crt and NAME.key.
func (p pair) save(dir, name string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(dir, name+".crt"), p.cert, 0o644),
		os.WriteFile(filepath.Join(dir, name+".key"), p.key, 0o600),
	)
}

// saveKeyPair writes the key that signs service account tokens, and its public
// half.
func saveKeyPair(dir, name string) error {
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	return errors.Join(err,
		os.WriteFile(filepath.Join(dir, name+".key"), keyPEM, 0o600),
		os.WriteFile(filepath.Join(dir, name+".pub"), encode("PUBLIC KEY", public), 0o644),
	)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	return key, encode("EC PRIVATE KEY", der), err
}

// certificate is what all certificates have in common.
func certificate(subject pkix.Name) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // never fails
	// Some minutes back, since whoever checks may have a clock of its own.
	from := time.Now().Add(-5 * time.Minute)
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: from, NotAfter: from.Add(validity)}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
