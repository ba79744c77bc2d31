//go:build !unix

package processorload

// RunWorker runs a worker if this process is one. Where there is no PostgreSQL to test with, there are none.
func RunWorker() bool { return false }
