package fleet

import (
	"fmt"
	"syscall"
)

// A node has these open files: its listener, its connection to etcd, both ends of the connections to the
// members that it watches, and both ends of those from the members that watch it.
const (
	filesPerNode = 6
	filesBeside  = 500
)

// EnoughFiles checks that this process may open the files that n nodes need. The etcd process may open as many,
// and needs fewer.
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
