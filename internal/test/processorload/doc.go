// Package processorload runs a processor of a checkpoint in two processes, under load, while leaders are killed and
// an operator makes each request that there is. It then checks that nothing was lost, and that nothing took effect
// twice. Tests of checkpoints use it.
//
// The package's own tests do the same with real processes and SIGKILL, with PostgreSQL alone and with etcd: the leader
// is killed in the middle of each request. -kill.rounds=20 makes each request 20 times.
//
// Not promised: the processes of [Run] are goroutines of the test. A killed one stores nothing more and has no effect
// any more, but its handler may still run.
package processorload
