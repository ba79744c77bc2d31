// Package connect makes clients of etcd, waits until etcd answers, and says why it does not: each cause has
// one message with one remedy, in which settings are called what the reader calls them (see Words).
//
// Each error matches one of three. ErrUnreachable: etcd does not answer. ErrNotEtcd: another server does.
// ErrDenied: etcd refuses the user, or there is no password to log in with.
//
// Not promised: that an error which does not last (see Lasts) passes. What can never be etcd is known from
// what may be slow, away or cut off; the rest only time shows. Nor that a cause is found: a firewall that
// drops packets looks like etcd's silence.
package connect
