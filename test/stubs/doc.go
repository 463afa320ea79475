// Package stubs drills real stub resolvers and holds the reports to what really
// happened to them: to what went over each client's own link (package wire), and
// to what the client itself logged.
//
// Each client of resolvers/list is a host of its own, with servers in its
// resolv.conf or behind a Service. One drill has all of them as targets at once,
// so a whole matrix costs one drill for each mode. Its figures are a page of the
// docs: go test ./test/stubs -run TestResolvers -update writes docs/resolvers.md
// anew, and without -update the test holds the page to what it measures.
//
// It needs root, since it makes network namespaces; elsewhere it is skipped.
package stubs
