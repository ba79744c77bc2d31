// Package daemon runs one Goverse node as a process: its ports, its embedded etcd if it has one, its part in
// the cluster, its status API over HTTP, and the order in which these start and stop.
//
//	New   bind --http, try --listen
//	Run   serve http (not ready) → embedded etcd → serve at --listen and join the cluster → wait
//	      → leave the cluster → stop http → stop etcd
//
// Not promised: a stop that was cut short may leave keys in etcd. They are deleted when the session's lease
// ends.
package daemon
