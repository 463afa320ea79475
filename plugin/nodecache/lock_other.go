//go:build !unix

package nodecache

// lock does nothing where there is no lock of a process on a file.
func lock(string) (unlock func(), err error) { return func() {}, nil }
