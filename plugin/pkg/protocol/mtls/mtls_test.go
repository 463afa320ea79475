package mtls_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls/mtlstest"
)

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"controller": true, "a": true, "jane.doe-2": true, strings.Repeat("a", 64): true,
		"": false, "Controller": false, "-a": false, "a.": false, "a b": false, "a\nb": false, "a/b": false,
		strings.Repeat("a", 65): false,
	} {
		if err := mtls.CheckName(name); (err == nil) != ok {
			t.Errorf("CheckName(%q) = %v, want ok %v", name, err, ok)
		}
	}
}

func TestVerifySaysWhatToDo(t *testing.T) {
	ca, other := mtlstest.NewCA(t), mtlstest.NewCA(t)
	now := time.Now()
	tests := []struct {
		name string
		leaf *x509.Certificate
		kind mtls.Kind
		want string // "" is right
	}{
		{"client", ca.Client("jane").Leaf, mtls.KindClient, ""},
		{"server", ca.Server().Leaf, mtls.KindServer, ""},
		{"foreign", other.Client("jane").Leaf, mtls.KindClient, "comes from another CA"},
		{"expired", ca.At(now.Add(-400 * 24 * time.Hour)).Client("jane").Leaf, mtls.KindClient, "issue a new one"},
		{"early", ca.At(now.Add(24 * time.Hour)).Client("jane").Leaf, mtls.KindClient, "check the clocks"},
		{"server as client", ca.Server().Leaf, mtls.KindClient, "not for client use"},
		{"client as server", ca.Client("jane").Leaf, mtls.KindServer, "not for server use"},
		{"API as server", ca.API().Leaf, mtls.KindServer, "does not have the URI name"},
		{"server as API", ca.Server().Leaf, mtls.KindAPI, "does not have the URI name"},
		{"two usages", ca.Odd("urn:firebreak:client:jane", x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth).Leaf, mtls.KindClient, "not for client use alone"},
		{"no name", ca.Odd("urn:firebreak:server", x509.ExtKeyUsageClientAuth).Leaf, mtls.KindClient, "no URI name"},
		{"bad name", ca.Odd("urn:firebreak:client:Jane%20Doe", x509.ExtKeyUsageClientAuth).Leaf, mtls.KindClient, "cannot be a caller's name"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := mtls.Verify([]*x509.Certificate{tc.leaf}, ca.Pool(), tc.kind, now)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("Verify = %v, want %q", err, tc.want)
			}
		})
	}
	if err := mtls.Verify(nil, ca.Pool(), mtls.KindClient, now); err == nil {
		t.Error("Verify of no certificate = nil, want an error")
	}
}

func TestHandshake(t *testing.T) {
	ca := mtlstest.NewCA(t)
	dir := t.TempDir()
	server := open(t, ca.Server().Save(t, dir, "server"), mtls.KindServer)
	client := open(t, ca.Client("jane").Save(t, dir, "jane"), mtls.KindClient)

	if err := shake(mtls.ServerConfig(server.Keys), mtls.ClientConfig(client.Keys, mtls.KindServer)); err != nil {
		t.Errorf("Handshake = %v, want nil", err)
	}
	old := mtls.ClientConfig(client.Keys, mtls.KindServer)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if shake(mtls.ServerConfig(server.Keys), old) == nil {
		t.Error("Handshake with TLS 1.2 = nil, want an error")
	}
	err := shake(mtls.ServerConfig(server.Keys), mtls.ClientConfig(client.Keys, mtls.KindAPI))
	if err == nil || !strings.Contains(err.Error(), "the API at the other end cannot be trusted") {
		t.Errorf("Handshake with a server where the API is wanted = %v, want that it cannot be trusted", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	ca := mtlstest.NewCA(t)
	dir := t.TempDir()
	good := ca.Server().Save(t, dir, "server")
	jane := ca.Client("jane").Save(t, dir, "jane")
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]mtls.Files{
		"no file":        {Cert: filepath.Join(dir, "none"), Key: good.Key, CA: good.CA},
		"wrong kind":     jane,
		"another's key":  {Cert: good.Cert, Key: jane.Key, CA: good.CA},
		"CA is text":     {Cert: good.Cert, Key: good.Key, CA: text},
		"cert is a text": {Cert: text, Key: good.Key, CA: good.CA},
	} {
		if _, err := mtls.Open(files, mtls.KindServer, nil); err == nil {
			t.Errorf("Open with %s = nil, want an error", name)
		}
	}
}

func open(t *testing.T, files mtls.Files, kind mtls.Kind) *mtls.Source {
	t.Helper()
	s, err := mtls.Open(files, kind, func(err error) { t.Errorf("Reported: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shake does a handshake and one byte each way: with TLS 1.3 a client knows only
// then that it was let in.
func shake(server, client *tls.Config) error {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	served := make(chan error, 1)
	go func() {
		conn := tls.Server(a, server)
		defer conn.Close()
		_, err := conn.Write([]byte{1})
		served <- err
	}()
	conn := tls.Client(b, client)
	_, err := conn.Read(make([]byte, 1))
	if serr := <-served; err == nil {
		err = serr
	}
	return err
}
