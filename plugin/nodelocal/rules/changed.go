//go:build linux

package rules

import (
	"encoding/binary"
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// generation is the number of the ruleset, which every change of anybody
// raises: one short message says whether there is anything to look at.
func generation() (uint32, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	answers, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	})
	if err != nil {
		return 0, err
	}
	for _, a := range answers {
		if len(a.Data) < 4 {
			continue
		}
		attrs, err := netlink.NewAttributeDecoder(a.Data[4:])
		if err != nil {
			return 0, err
		}
		attrs.ByteOrder = binary.BigEndian
		for attrs.Next() {
			if attrs.Type() == unix.NFTA_GEN_ID {
				return attrs.Uint32(), nil
			}
		}
	}
	return 0, errors.New("the kernel does not say the ruleset's number")
}
