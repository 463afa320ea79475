package clients

import (
	"testing"

	clog "github.com/coredns/coredns/plugin/pkg/log"
)

func TestMain(m *testing.M) {
	clog.Discard()
	m.Run()
}
