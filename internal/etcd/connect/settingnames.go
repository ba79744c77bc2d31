package connect

import "context"

// SettingNames holds the names of the settings as the reader of a message knows them.
type SettingNames struct {
	// Address names the setting with etcd's addresses, User the settings with the user and the password.
	Address, User string
	// Authority names the setting that etcd's certificate is checked with, Certificates all settings of TLS.
	Authority, Certificates string
}

// The words for each kind of program.
var (
	// FieldNames are the words for users of cluster.Config.
	FieldNames = SettingNames{Address: "EtcdAddress", User: "Username and Password", Authority: "TLS", Certificates: "TLS"}
	// FlagNames are the words for users of goversed.
	FlagNames = SettingNames{Address: "--etcd",
		User:      "--etcd-user (GOVERSE_ETCD_USER) and --etcd-password (GOVERSE_ETCD_PASSWORD)",
		Authority: "--etcd-cacert", Certificates: "--etcd-cacert, --etcd-cert and --etcd-key"}
	// clientNames are the words for a program that made the client itself.
	clientNames = SettingNames{Address: "the Client's endpoints", User: "the Client's user and password",
		Authority: "the Client's TLS", Certificates: "the Client's TLS"}
)

type settingNamesKey struct{}

// WithSettingNames returns a context for which SettingNamesOf returns w. goversed uses it to make the cluster that it
// starts name flags in its messages, because the cluster's public configuration has no such setting.
func WithSettingNames(ctx context.Context, w SettingNames) context.Context {
	return context.WithValue(ctx, settingNamesKey{}, w)
}

// SettingNamesOf returns the words that WithSettingNames attached to ctx, otherwise FieldNames.
func SettingNamesOf(ctx context.Context) SettingNames {
	if w, ok := ctx.Value(settingNamesKey{}).(SettingNames); ok {
		return w
	}
	return FieldNames
}
