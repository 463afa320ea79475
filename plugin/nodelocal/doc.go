// Package nodelocal gives the node's DNS addresses of its own, and has what is
// sent to them reach this process: a link with the addresses, and rules that keep the
// packets out of connection tracking. Both are one state, which is put, kept, and
// taken away.
//
// The order is what matters: addresses first, because CoreDNS cannot bind others;
// then CoreDNS listens; then it is asked through its own address, and only when it
// answers is anything captured (keeper.go, check.go). What was captured stays so
// when upstreams fail later: a cache still answers. The state belongs to the process
// and not to a Corefile; a reload changes what is wanted (tenure), and one that fails
// changes nothing. What somebody else removes is put back (netlink events, and the
// number of the ruleset twice a second).
//
// Old and new pods live at once for a while. They know each other (package
// generation): the newest that listens has the link; each has its own rules, which
// the kernel removes with it, so that what is captured is always served.
package nodelocal
