// Package electproc holds one program several times, each with another library for leader election:
// cluster/leaderelection by itself, a node of package cluster, cluster/elector, etcd's concurrency.Election, and the
// elector of Kubernetes' client-go. Several copies of a program run at once, and one of them works.
//
// Each program is one file, as small as it can be while it does the whole job:
//
//   - It campaigns, and works while it leads.
//   - It ends the work when it no longer leads, and campaigns again after a lost session.
//   - When it is told to stop, it ends the work, and then gives way to the next copy at once.
//
// The benchmark counts the files' lines ([Program.Lines]) and measures the same programs as processes ([Serve]).
//
// # What is not promised
//
// The programs do the same, and differ in their safety. Some bound the time for which a leader works that is cut off or
// stands still, and some do not. Only those of Goverse and concurrency.Election have a fencing token.
package electproc
