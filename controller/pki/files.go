package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// Names of a CA's files in its folder. Other pairs are NAME.crt and NAME.key.
const (
	CACertFile = "ca.crt"
	CAKeyFile  = "ca.key"
)

const (
	certMode = 0o644
	keyMode  = 0o600
	dirMode  = 0o700
)

// ErrExists is wrapped when a CA is there already.
var ErrExists = errors.New("a CA is there already")

// Save writes the CA into a folder, which is made if it is not there. It
// refuses to overwrite a CA.
func (ca *CA) Save(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	key, err := encodeKey(ca.key)
	if err != nil {
		return err
	}
	certPath, keyPath := filepath.Join(dir, CACertFile), filepath.Join(dir, CAKeyFile)
	if _, err := os.Lstat(certPath); err == nil {
		return exists(certPath)
	}
	// The key first: who loses a race for it leaves no certificate beside
	// another's key.
	if err := writeNew(keyPath, key, keyMode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return exists(keyPath)
		}
		return err
	}
	return writeNew(certPath, encodeCert(ca.cert), certMode)
}

func exists(path string) error {
	return fmt.Errorf("%s: %w: use it, or choose another folder; a new one would make everything that it issued worthless", path, ErrExists)
}

// LoadCA reads a CA from its folder.
func LoadCA(dir string) (*CA, error) {
	certPath, keyPath := filepath.Join(dir, CACertFile), filepath.Join(dir, CAKeyFile)
	certPEM, err := os.ReadFile(certPath) //nolint:gosec // the caller's own folder
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyPath) //nolint:gosec // the caller's own folder
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(certPEM)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s: no certificate in PEM in it", certPath)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certPath, err)
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("%s: a certificate, but not a CA's", certPath)
	}
	key, err := decodeKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyPath, err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%s is not the key of %s: put back the one that belongs to it", keyPath, certPath)
	}
	return &CA{cert: cert, key: key, now: time.Now}, nil
}

// Save writes NAME.crt and NAME.key into a folder, replacing what is there, and
// the CA's certificate as ca.crt if there is none. It returns their paths.
func (p *Pair) Save(dir, name string) (mtls.Files, error) {
	if name+".key" == CAKeyFile {
		return mtls.Files{}, fmt.Errorf("%q is the CA's own name: choose another", name)
	}
	files := mtls.Files{
		Cert: filepath.Join(dir, name+".crt"),
		Key:  filepath.Join(dir, name+".key"),
		CA:   filepath.Join(dir, CACertFile),
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return files, err
	}
	if err := write(files.Key, p.Key, keyMode); err != nil {
		return files, err
	}
	if err := write(files.Cert, p.Cert, certMode); err != nil {
		return files, err
	}
	if err := writeNew(files.CA, p.CA, certMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return files, err
	}
	return files, nil
}

// write replaces a file whole, or leaves it as it was.
func write(path string, content []byte, mode fs.FileMode) error {
	tmp, err := writeTemp(path, content, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// writeNew writes a file that is not there yet, else fs.ErrExist.
func writeNew(path string, content []byte, mode fs.FileMode) error {
	tmp, err := writeTemp(path, content, mode)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	if err := os.Link(tmp, path); err != nil { // unlike a rename it never replaces
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeTemp(path string, content []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(content); err != nil {
		return "", err
	}
	if err = f.Chmod(mode); err != nil {
		return "", err
	}
	if err = f.Sync(); err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the caller's own folder
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func encodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func decodeKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("no private key in PEM (PKCS #8) in it")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a key of type %T: a CA of ours has an ECDSA key", key)
	}
	return ec, nil
}
