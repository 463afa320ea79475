package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// known is a connection whose caller is known. TLS runs on top of it, so that it
// learns when the connection is closed, whoever closes it.
type known struct {
	net.Conn
	name     string
	chain    []*x509.Certificate       // nil on a unix socket
	verified atomic.Pointer[mtls.Keys] // against which chain was last verified
	left     func()
	once     sync.Once
}

// Close closes the connection and counts its caller out.
func (k *known) Close() error {
	err := k.Conn.Close()
	k.once.Do(func() {
		if k.left != nil {
			k.left()
		}
	})
	return err
}

// identify takes the caller's name from its certificate.
func (k *known) identify(cs tls.ConnectionState) error {
	leaf, err := mtls.Peer(&cs)
	if err != nil {
		return err
	}
	k.name, err = mtls.ClientName(leaf)
	k.chain = cs.PeerCertificates
	return err
}

// check says whether the caller may still call. A connection can outlive its
// certificate, the CA that issued it and the list of who may call, so this is
// asked of every request and every event, not only of the handshake.
func (k *known) check(svc *service) error {
	if k.chain == nil {
		return nil // a unix socket: who could open it may call
	}
	if !svc.options.allow[k.name] {
		return fmt.Errorf("%q is not on the list of callers: add it to allow in the control block of the Corefile", k.name)
	}
	now := time.Now()
	if now.After(k.chain[0].NotAfter) {
		return mtls.Expired(k.chain[0])
	}
	keys := svc.source.Keys()
	if k.verified.Load() == keys {
		return nil
	}
	if err := mtls.Verify(k.chain, keys.Roots, mtls.KindClient, now); err != nil {
		return err
	}
	k.verified.Store(keys)
	return nil
}

type peerKey struct{}

// withPeer puts the connection's caller into the context of its requests.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, peerKey{}, c)
}

func peerOf(ctx context.Context) *known {
	k, _ := ctx.Value(peerKey{}).(*known)
	return k
}

// uidName is what a caller on a unix socket is called.
func uidName(uid uint32) string { return fmt.Sprintf("uid:%d", uid) }

// checkUID says whether uid may use the unix socket. Its mode says so already;
// this holds where the mode was changed or the file was passed on.
func checkUID(uid uint32) error {
	if uid == 0 || int(uid) == os.Geteuid() {
		return nil
	}
	return fmt.Errorf("user %d may not use this socket: call as root or as user %d", uid, os.Geteuid())
}
