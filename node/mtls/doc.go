// Package mtls provides mutual TLS between nodes, and between nodes and the programs that call them. It uses
// three PEM files, which it reads again when they change. Three lines set it up:
//
//	certs, err := mtls.New(mtls.Config{CertFile: "node.pem", KeyFile: "node-key.pem", CAFile: "ca.pem"})
//	node.Config{…, ServerOptions: []grpc.ServerOption{certs.ServerOption()}}
//	cluster.Config{…, DialOptions: []grpc.DialOption{certs.DialOption()}}
//
// A node then serves only callers that present a certificate signed by an authority in CAFile. This applies to
// every service, including Identify, health and reflection. The node calls other nodes only if they present
// such a certificate, valid for the host that it dials. That is the host of their advertise address: a DNS name
// or an IP address among the certificate's subject alternative names. A node uses its certificate in both
// roles, so if the certificate has extended key usages, they must include serverAuth and clientAuth. The
// protocol is TLS 1.3.
//
// To replace a certificate, write the new CertFile and KeyFile. To replace the authority:
//
//  1. on every node, CAFile with the old and the new authority;
//  2. on every node, a certificate of the new one;
//  3. on every node, CAFile with the new authority alone.
//
// New connections use the new content after at most Config.Interval; open connections stay as they are. Files
// are ignored, with one line in the log, if they are broken, do not belong together, or hold a certificate that
// other nodes would reject. The files can therefore be written one after the other.
//
// Not promised: there is no authorization. Every certificate of the authority is accepted for every purpose,
// both of nodes and of callers, so use an authority of the cluster's own. A connection outlives its
// certificate, even after it has expired or its authority was removed; restart the node to end it. Revocation
// lists are not read. Connections to etcd are separate: they use cluster.Config.TLS, or CurrentTLS with
// Config.ForEtcd.
//
// With Config.ServerOnly the package also serves other servers, such as a node's HTTP server.
package mtls
