// Package fleet runs many complete nodes in one process against one etcd. Each has its own gRPC server,
// session, candidacy and mirror, and so its own watch stream. The package reports when all nodes agree, and
// what remains after they have ended.
//
// # What is not promised
//
// The nodes do not have resources of their own, as in a real cluster: they share the process's cores, heap and
// garbage collector. Work that all of them do at the same time is therefore slower, and their requests wait
// longer.
package fleet
