// Package house holds the tests on the house itself: who may import whom, that
// every Corefile in the documentation starts, how metrics are called, and the
// conventions of CONTRIBUTING.md. They read the tree, so a new package, plugin or
// page is held to them without anybody having to think of it.
package house
