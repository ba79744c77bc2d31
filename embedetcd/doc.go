// Package embedetcd runs real etcd servers inside a Go program: for tests, for
// `goversed dev`, and for a first node that has no etcd of its own yet.
//
//	s, err := embedetcd.Start(ctx, embedetcd.Config{})   // a free port, a temporary directory
//	client := s.Client()                                 // in process, or dial s.Endpoint()
//	err = s.Close()                                      // port free, directory gone
//
// With Config.Peers the server is one member of a cluster with other members in other processes, on other
// machines. Start describes how such a cluster begins and how to replace a member. StartCluster runs several
// members in one process for tests; it can stop and restart them, and isolate one from the others.
//
// The package links etcd's server, which takes some tens of megabytes, so only tests and commands should import
// it.
//
// # What is not promised
//
//   - A server is not secure without ClientTLS and PeerTLS. Any program that reaches the client address can then
//     read and write everything, unless etcd's access control is on. Any program that reaches the peer address
//     always can. Keep both addresses on a loopback interface or in a trusted network.
//   - A server is not more available than its process.
//   - The package does not add or remove members. Use an etcd client for that.
//   - A process need not survive damaged data. Start detects some damage. If etcd alone detects it, etcd logs
//     the reason and ends the whole process.
package embedetcd
