// Package embedetcd runs real etcd servers inside a Go program: for tests, for
// `goversed dev`, and for a first node that has no etcd of its own yet.
//
//	s, err := embedetcd.Start(ctx, embedetcd.Config{})   // a free port, a temporary directory
//	client := s.Client()                                 // in process, or dial s.Endpoint()
//	err = s.Close()                                      // port free, directory gone
//
// StartCluster runs several members in one process, stops and restarts them, and cuts
// one off from the others.
//
// Not promised: security. There is neither TLS nor a password; the one that reaches the
// client address can read and write everything, so leave it on a loopback address or
// run etcd proper. A server in one process is as available as that process. Members
// cannot be added to or removed from a running cluster. And damage of the
// data that Start does not see, but etcd does, ends the whole process, after etcd has
// said why.
//
// The package links etcd's server, some tens of megabytes: nothing but tests and
// commands should import it.
package embedetcd
