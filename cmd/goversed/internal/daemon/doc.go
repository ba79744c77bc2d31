// Package daemon runs one node as a process does: its ports, the etcd inside it if
// it has one, its part in the cluster, its status over HTTP, and the order in which
// all of that starts and stops.
//
//	New   bind --listen, bind --http
//	Run   serve http (not ready) → embedded etcd → join the cluster → wait
//	      → leave the cluster → stop http → stop etcd
//
// Not promised: that a stop which was cut short left nothing behind in etcd. What
// is left ends with the session's lease.
package daemon
