package connect

import "context"

// Words are what the settings are called where a message is read.
type Words struct {
	// Address has etcd's addresses, User the user and the password.
	Address, User string
	// Authority is what etcd's certificate is checked with, Certificates are all settings of TLS.
	Authority, Certificates string
}

// The words of those who set something.
var (
	// Fields are those of cluster.Config.
	Fields = Words{Address: "EtcdAddress", User: "Username and Password", Authority: "TLS", Certificates: "TLS"}
	// Flags are those of goversed.
	Flags = Words{Address: "--etcd",
		User:      "--etcd-user (GOVERSE_ETCD_USER) and --etcd-password (GOVERSE_ETCD_PASSWORD)",
		Authority: "--etcd-cacert", Certificates: "--etcd-cacert, --etcd-cert and --etcd-key"}
	// ofClient are those of a program that made the client itself.
	ofClient = Words{Address: "the Client's endpoints", User: "the Client's user and password",
		Authority: "the Client's TLS", Certificates: "the Client's TLS"}
)

type wordsKey struct{}

// WithWords has WordsOf return w. With it goversed has the cluster that it starts, whose configuration is
// public, name flags.
func WithWords(ctx context.Context, w Words) context.Context {
	return context.WithValue(ctx, wordsKey{}, w)
}

// WordsOf is what WithWords gave ctx, or Fields.
func WordsOf(ctx context.Context) Words {
	if w, ok := ctx.Value(wordsKey{}).(Words); ok {
		return w
	}
	return Fields
}
