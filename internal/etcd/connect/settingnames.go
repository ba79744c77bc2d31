package connect

import "context"

// Words holds the names of the settings as the reader of a message knows them.
type Words struct {
	// Address names the setting with etcd's addresses, User the settings with the user and the password.
	Address, User string
	// Authority names the setting that etcd's certificate is checked with, Certificates all settings of TLS.
	Authority, Certificates string
}

// The words for each kind of program.
var (
	// Fields are the words for users of cluster.Config.
	Fields = Words{Address: "EtcdAddress", User: "Username and Password", Authority: "TLS", Certificates: "TLS"}
	// Flags are the words for users of goversed.
	Flags = Words{Address: "--etcd",
		User:      "--etcd-user (GOVERSE_ETCD_USER) and --etcd-password (GOVERSE_ETCD_PASSWORD)",
		Authority: "--etcd-cacert", Certificates: "--etcd-cacert, --etcd-cert and --etcd-key"}
	// ofClient are the words for a program that made the client itself.
	ofClient = Words{Address: "the Client's endpoints", User: "the Client's user and password",
		Authority: "the Client's TLS", Certificates: "the Client's TLS"}
)

type wordsKey struct{}

// WithWords returns a context for which WordsOf returns w. goversed uses it to make the cluster that it starts
// name flags in its messages, because the cluster's public configuration has no such setting.
func WithWords(ctx context.Context, w Words) context.Context {
	return context.WithValue(ctx, wordsKey{}, w)
}

// WordsOf returns the words that WithWords attached to ctx, otherwise Fields.
func WordsOf(ctx context.Context) Words {
	if w, ok := ctx.Value(wordsKey{}).(Words); ok {
		return w
	}
	return Fields
}
