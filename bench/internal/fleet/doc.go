// Package fleet runs many complete nodes in one process against one etcd. Each has its own gRPC server,
// session, candidacy and mirror, and so its own watch stream. The package reports when all nodes agree, and
// what remains after they have ended.
//
// # What is not promised
//
// The nodes share the process's cores, heap and garbage collector; in a real cluster each has its own. Work
// that all of them do at the same time is therefore slower here, and their requests wait longer.
package fleet
