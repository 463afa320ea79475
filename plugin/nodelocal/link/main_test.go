//go:build linux

package link

import (
	"testing"

	"firebreakdns.io/firebreak/plugin/nodelocal/netnstest"
)

func TestMain(m *testing.M) { netnstest.Main(m) }
