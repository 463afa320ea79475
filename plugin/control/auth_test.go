package control

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls/mtlstest"
)

func TestWhoMayCall(t *testing.T) {
	s := newSite(t)
	foreign := mtlstest.NewCA(t)
	year := 400 * 24 * time.Hour
	tests := []struct {
		name   string
		pair   *mtlstest.Pair
		status int    // 0: not even let in
		log    string // of the refusal
	}{
		{"the controller", s.ca.Client("controller"), 200, ""},
		{"another on the list", s.ca.Client("jane"), 200, ""},
		{"not on the list", s.ca.Client("mallory"), 403, "caller=mallory"},
		{"no certificate", nil, 0, "client didn't provide a certificate"},
		{"of another CA", foreign.Client("controller"), 0, "comes from another CA"},
		{"expired", s.ca.At(time.Now().Add(-year)).Client("controller"), 0, "has expired"},
		{"not yet valid", s.ca.At(time.Now().Add(year)).Client("controller"), 0, "check the clocks"},
		{"a server's certificate", s.ca.Server(), 0, "not for client use"},
		{"both usages", s.ca.Odd("urn:firebreak:client:controller", x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth), 0, "not for client use alone"},
		{"no client's name", s.ca.Odd("urn:firebreak:server", x509.ExtKeyUsageClientAuth), 0, "no URI name"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			resp, body, err := s.call(s.client(tc.pair), http.MethodGet, protocol.PathState, nil)
			switch {
			case tc.status == 0 && err == nil:
				t.Errorf("Call = %s, want no connection", resp.Status)
			case tc.status != 0 && err != nil:
				t.Errorf("Call = %v, want status %d", err, tc.status)
			case tc.status != 0 && resp.StatusCode != tc.status:
				t.Errorf("Call = %s, want %d", resp.Status, tc.status)
			}
			if tc.status == 403 {
				problem(t, resp, body, 403, protocol.ReasonForbidden)
			}
			if tc.log != "" {
				eventually(t, "an audit line with "+tc.log, func() bool { return sawLog("audit:", tc.log) })
			}
		})
	}
}

func TestOnlyTLS13(t *testing.T) {
	s := newSite(t)
	config := s.tls(s.ca.Client("jane"))
	config.MaxVersion = tls.VersionTLS12
	if _, _, err := s.call(client(t, config), http.MethodGet, protocol.PathState, nil); err == nil {
		t.Error("Call with TLS 1.2 = nil, want an error")
	}
	resp, err := http.Get("http://" + s.addr + protocol.PathState)
	if err == nil {
		resp.Body.Close()
		t.Errorf("Call without TLS = %s, want an error", resp.Status)
	}
}

func TestServerIsKnownByItsURI(t *testing.T) {
	s := newSite(t)
	conn, err := tls.Dial("tcp", s.addr, s.tls(s.ca.Client("jane")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	uris := conn.ConnectionState().PeerCertificates[0].URIs
	if len(uris) != 1 || uris[0].String() != protocol.ServerURI {
		t.Errorf("Server's names = %v, want %s", uris, protocol.ServerURI)
	}
}

// A connection is kept open; what it may do follows the certificate's end.
func TestCertificateEndsDuringAConnection(t *testing.T) {
	s := newSite(t)
	c := s.client(s.ca.Until(time.Now().Add(2*time.Second), "jane"))
	if got := s.word(c); got != "one" {
		t.Fatalf("Call = %s, want an answer", got)
	}
	eventually(t, "the call is refused", func() bool { return strings.Contains(s.word(c), "has expired") })
}

// A CA that is taken out of the file takes open connections of its callers along.
func TestCAIsReplaced(t *testing.T) {
	s := newSite(t)
	old := s.client(s.ca.Client("jane"))
	if got := s.word(old); got != "one" {
		t.Fatalf("Call = %s, want an answer", got)
	}
	next := mtlstest.NewCA(t)
	next.Server().Save(t, s.dir, "server")
	eventually(t, "the old CA's caller is refused", func() bool { return strings.Contains(s.word(old), "another CA") })
	s.ca = next
	if got := s.word(s.client(next.Client("jane"))); got != "one" {
		t.Errorf("Call with the new CA = %s, want an answer", got)
	}
}

func TestCertificateIsReplaced(t *testing.T) {
	s := newSite(t)
	jane := s.ca.Client("jane")
	shown := func() string {
		conn, err := tls.Dial("tcp", s.addr, s.tls(jane))
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	next := s.ca.Server()
	next.Save(t, s.dir, "server")
	eventually(t, "the new certificate is shown", func() bool { return shown() == next.Leaf.SerialNumber.String() })

	broken := *next
	broken.Cert = []byte("nonsense")
	broken.Save(t, s.dir, "server")
	eventually(t, "the broken file is reported", func() bool {
		if shown() != next.Leaf.SerialNumber.String() {
			t.Fatal("A broken file replaced the certificate")
		}
		return sawLog("[WARNING]", "going on with the certificate")
	})
}
