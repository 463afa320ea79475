package drill

import (
	"firebreakdns.io/firebreak/plugin/pkg/protocol"

	"github.com/prometheus/client_golang/prometheus"
)

// Dropped is the counter of datagrams dropped at a server's address: whoever
// drops one that does not go through this plugin's handler counts it here, and
// with Running.Count.
func Dropped(server string) prometheus.Counter {
	return drilledTotal.WithLabelValues(server, string(protocol.ModeDrop), string(overUDP))
}
