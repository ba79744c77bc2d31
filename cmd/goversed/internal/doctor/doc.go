// Package doctor examines etcd and a cluster as a node would, for goversed doctor. Examine gathers facts,
// package diagnosis judges them, and Print writes the findings.
//
// Package doctor makes no lasting change. It creates leases and revokes them, and writes one key of its own, on
// one of these leases, below <prefix>/nodes-doctor/. Nodes see that key and ignore it. To learn whether the
// user may write elsewhere, it sends transactions with writes that are never carried out: etcd first checks the
// rights for every operation of a transaction.
//
// ExaminePostgres does the same for PostgreSQL: it looks at the tables and the statistics, and writes a few empty
// messages to the write-ahead log.
//
// Each request has a time-out, and the examination has that of the configuration. It examines a limited number
// of nodes, of leases, and of keys in which it searches for other clusters.
//
// Not promised: nodes may see something else. Run the doctor where a node runs, as the node's user.
package doctor
