//go:build linux

package link

import (
	"sync"

	"github.com/vishvananda/netlink"
)

// Watch calls changed whenever a link or an address of the node changes.
// It is called from other goroutines, often, and must not block. stop ends it.
func Watch(changed func()) (stop func(), err error) {
	done := make(chan struct{})
	var once sync.Once
	stop = func() { once.Do(func() { close(done) }) }
	links := make(chan netlink.LinkUpdate, 64)
	addrs := make(chan netlink.AddrUpdate, 64)
	// What the kernel could not tell is a change as well.
	lost := func(error) { changed() }
	if err := netlink.LinkSubscribeWithOptions(links, done, netlink.LinkSubscribeOptions{ErrorCallback: lost}); err != nil {
		return nil, wrap("watching links", err)
	}
	go func() {
		for range links {
			changed()
		}
	}()
	if err := netlink.AddrSubscribeWithOptions(addrs, done, netlink.AddrSubscribeOptions{ErrorCallback: lost}); err != nil {
		stop()
		return nil, wrap("watching addresses", err)
	}
	go func() {
		for range addrs {
			changed()
		}
	}()
	return stop, nil
}
