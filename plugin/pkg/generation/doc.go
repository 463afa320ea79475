// Package generation lets processes that do one job on a machine, one after the
// other and for a while at once, agree on who does what may be done by one alone:
// the old and the new pod of a DaemonSet that surges, for one.
//
// Each member listens at an abstract unix socket of its own, whose name holds when
// it joined. Abstract sockets belong to the network namespace and end with the
// process, however it ends, so the kernel keeps the list of who lives: a newcomer
// reads it (/proc/net/unix) and connects to everybody. There is no hub that could
// die, and a member that is killed is missed at once, by the end of its connections.
// Who has another UID is none of us (SO_PEERCRED).
//
// The owner is the newest of those who claimed it. Nobody votes: all see the same
// members, and the order of joining is a fact. Each tells the others its state as
// one line of JSON whenever it changes: version, id, when it joined, whether it
// claims, and facts, which are JSON under names that the users of this package
// choose. A reader leaves alone what it does not know, so that versions can differ.
package generation
