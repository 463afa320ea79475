package drill

import (
	"context"
	"strings"

	"github.com/coredns/coredns/core/dnsserver"
	ctransport "github.com/coredns/coredns/plugin/pkg/transport"
)

// transport is how a query came, as the metrics' label has it.
type transport string

const (
	overUDP    transport = "udp"
	overTCP    transport = "tcp"
	overTLS    transport = "tls"
	overQUIC   transport = "quic"
	overHTTPS  transport = "https"
	overHTTPS3 transport = "https3"
	overGRPC   transport = "grpc"
)

// byScheme is the transport of a server's address, but for plain DNS, which is
// two.
var byScheme = map[string]transport{
	ctransport.TLS:    overTLS,
	ctransport.QUIC:   overQUIC,
	ctransport.HTTPS:  overHTTPS,
	ctransport.HTTPS3: overHTTPS3,
	ctransport.GRPC:   overGRPC,
}

// transportOf finds the transport. What tells is the server's address: the
// writers that CoreDNS makes for each transport are wrapped by then.
func transportOf(ctx context.Context, stream bool) (transport, string) {
	server := ""
	if s, ok := ctx.Value(dnsserver.Key{}).(*dnsserver.Server); ok {
		server = s.Addr
	}
	scheme, _, _ := strings.Cut(server, "://")
	if t, ok := byScheme[scheme]; ok {
		return t, server
	}
	if stream {
		return overTCP, server
	}
	return overUDP, server
}

// transportsOf are those that a server's address has.
func transportsOf(server string) []transport {
	scheme, _, _ := strings.Cut(server, "://")
	if t, ok := byScheme[scheme]; ok {
		return []transport{t}
	}
	return []transport{overUDP, overTCP}
}
