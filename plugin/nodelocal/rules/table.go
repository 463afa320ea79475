//go:build linux

package rules

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// flagOwner has the table end with the socket that made it, and keeps all others
// from changing it (NFT_TABLE_F_OWNER, Linux 5.12).
const flagOwner = 0x2

// flags are a table's. The library reads them in the host's byte order; the kernel
// sends them in the network's.
func flags(t *nftables.Table) uint32 {
	return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, t.Flags))
}

// answerWithin is how long the kernel may take: longer than any lock is held.
const answerWithin = 5 * time.Second

// errNoOwners says that the kernel is older than tables with an owner.
var errNoOwners = errors.New("this kernel has no tables with an owner")

// createOwned makes an empty table that belongs to the socket. The library has no
// word for a table's flags.
func createOwned(c *netlink.Conn, name string) error {
	// nfgenmsg: family, version, resource id
	header := func(family byte, id uint16) []byte {
		return binary.BigEndian.AppendUint16([]byte{family, unix.NFNETLINK_V0}, id)
	}
	attrs, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: []byte(name + "\x00")},
		{Type: unix.NFTA_TABLE_FLAGS, Data: binary.BigEndian.AppendUint32(nil, flagOwner)},
	})
	if err != nil {
		return err
	}
	bound := func(kind netlink.HeaderType) netlink.Message {
		return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request}, Data: header(0, unix.NFNL_SUBSYS_NFTABLES)}
	}
	if err := c.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	_, err = c.SendMessages([]netlink.Message{
		bound(unix.NFNL_MSG_BATCH_BEGIN),
		{
			Header: netlink.Header{
				Type:  unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE,
				Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl,
			},
			Data: append(header(byte(nftables.TableFamilyINet), 0), attrs...),
		},
		bound(unix.NFNL_MSG_BATCH_END),
	})
	if err != nil {
		return fmt.Errorf("adding table inet %s: %w", name, err)
	}
	_, err = c.Receive()
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		return errNoOwners
	case err != nil:
		return fmt.Errorf("adding table inet %s: %w", name, err)
	}
	return nil
}
