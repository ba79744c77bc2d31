// Package fleet runs many whole nodes in one process over one etcd: each has its
// gRPC server, its session, its candidacy, its mirror and so a watch stream of its
// own. It reports when all of them agree, and what is left when they are gone.
//
// # What is not promised
//
// The nodes share the process's cores, heap and collector, where in a real cluster
// each has its own. What all of them do at once is therefore slower here, and their
// requests wait longer.
package fleet
