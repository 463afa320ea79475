//go:build linux

package rules

import (
	"testing"

	"firebreakdns.io/firebreak/plugin/nodelocal/netnstest"
)

func TestMain(m *testing.M) { netnstest.Main(m) }
