// Package mtls is mutual TLS between nodes, and between nodes and the programs that call them, from three PEM files
// that are read again when they change. Three lines set it up:
//
//	certs, err := mtls.New(mtls.Config{CertFile: "node.pem", KeyFile: "node-key.pem", CAFile: "ca.pem"})
//	node.Config{…, ServerOptions: []grpc.ServerOption{certs.ServerOption()}}
//	cluster.Config{…, DialOptions: []grpc.DialOption{certs.DialOption()}}
//
// A node is then served to callers that show a certificate of one of the authorities in CAFile, and to nobody else, on
// every service: Identify, health and reflection as well. It calls nodes that show such a certificate for the host
// that it dials, which is that of their advertise address: a DNS name or an IP address among the certificate's
// subject alternative names. A node's certificate is needed for both roles, so where it has extended key usages at all,
// serverAuth and clientAuth must be among them. The protocol is TLS 1.3.
//
// To replace a certificate, write the new CertFile and KeyFile. To replace the authority:
//
//  1. on every node, CAFile with the old and the new authority;
//  2. on every node, a certificate of the new one;
//  3. on every node, CAFile with the new authority alone.
//
// New connections use what the files hold, at the latest after Config.Interval; those that are open stay as they are.
// Files that are broken, do not belong together, or hold a certificate that the authorities in CAFile would refuse
// change nothing, and make one line in the log: so the files can be written one after the other.
//
// Not promised: who may do what. Every certificate of the authority counts the same, as a node and as a caller, so
// take an authority of the cluster's own. A connection outlives the certificate it was made with, also one that has
// expired, or whose authority was taken out: restart the node to be rid of it. Revocation lists are not read. The
// connections to etcd are not meant here: they have cluster.Config.TLS.
//
// With Config.ServerOnly the same machinery serves another server, such as that of a node's HTTP.
package mtls
