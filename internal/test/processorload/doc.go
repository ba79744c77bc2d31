// Package processorload runs a processor of a checkpoint in two processes, under load, while leaders are killed and
// an operator makes each request that there is. It then checks that nothing was lost, and that nothing took effect
// twice. Tests of checkpoints use it.
//
// Not promised: the processes are goroutines of the test. A killed one stores nothing more and has no effect any more,
// but its handler may still run.
package processorload
