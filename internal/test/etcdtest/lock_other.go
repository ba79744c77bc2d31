//go:build !unix

package etcdtest

// lockFile does nothing: test processes that start at the same time all build the program.
func lockFile(string) (unlock func(), err error) { return func() {}, nil }
