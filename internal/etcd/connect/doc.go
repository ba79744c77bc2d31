// Package connect makes clients of etcd, waits until etcd answers, and explains why it does not. Each cause has
// one message with one remedy. Messages use the names under which their reader knows the settings (see SettingNames).
//
// Each error matches one of three. ErrUnreachable: etcd does not answer. ErrNotEtcd: another server answers.
// ErrDenied: etcd refuses the user, or there is no password to log in with.
//
// Not promised: an error that is not permanent (see IsPermanent) may persist all the same. Servers that can never be
// etcd are recognized, but a server that is slow, away or cut off may never return. A cause may remain unknown:
// a firewall that drops packets looks the same as an etcd that is silent.
package connect
