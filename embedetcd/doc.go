// Package embedetcd runs real etcd servers inside a Go program: for tests, for
// `goversed dev`, and for a first node that has no etcd of its own yet.
//
//	s, err := embedetcd.Start(ctx, embedetcd.Config{})   // a free port, a temporary directory
//	client := s.Client()                                 // in process, or dial s.Endpoint()
//	err = s.Close()                                      // port free, directory gone
//
// With Config.Peers it is one member of a cluster whose other members run in other processes, on
// other machines; Start says how such a cluster begins and how a member is replaced.
// StartCluster runs several members in one process for tests, stops and restarts them, and cuts
// one off from the others.
//
// Not promised: security without ClientTLS and PeerTLS. The one that reaches the client address can
// then read and write everything, unless etcd's access control was turned on, and the one that
// reaches the peer address always can; so leave both on a loopback address or in a network you
// trust. A server in one process is as available as that process. Members are added and removed
// by etcd's clients, not here. And damage of the
// data that Start does not see, but etcd does, ends the whole process, after etcd has
// said why.
//
// The package links etcd's server, some tens of megabytes: nothing but tests and
// commands should import it.
package embedetcd
