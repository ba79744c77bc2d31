package fleet

import (
	"fmt"
	"syscall"
)

// Of open files a node has its listener and a connection to etcd, both ends of those
// to the members that it watches and of those from the members that watch it.
const (
	filesPerNode = 6
	filesBeside  = 500
)

// EnoughFiles checks that this process may open the files that n nodes need. etcd, a
// process of its own, may open as many, and needs fewer.
func EnoughFiles(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(n*filesPerNode + filesBeside); limit.Cur < need {
		return fmt.Errorf("%d nodes need %d open files and the limit is %d: raise it with ulimit -n", n, need, limit.Cur)
	}
	return nil
}
