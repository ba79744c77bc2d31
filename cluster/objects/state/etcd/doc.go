// Package etcd keeps the states of objects in etcd: small ones, of up to 1 MiB, that do not change often. A
// record is one key, which a save replaces in a transaction if nobody has since it was read, together with the
// reply to the call.
//
//	store, err := etcd.New(etcd.Config{Client: client, Prefix: "/shop-objects"})
//	s, err := state.Load(ctx, store, o, &pb.Settings{})
//
// Below the prefix, a record is records/<service>/<key>: 8 bytes of the epoch, one byte that says whether there
// is a state, and the state. A reply is replies/<service>/<key>/<request id>. Names are escaped as in URLs.
//
// Replies, and the claims of objects without a state, end with a lease: not one each, but one for an eighth of
// Config.Retention in each process, or for 4096 keys, so they are kept for up to an eighth longer.
//
// # What is not promised
//
//   - That etcd takes states as a database does: all of them are in its memory, within its quota (2 GiB unless
//     it is set), and each save is written to every member's log.
//   - That an object which never had a state can be saved when it was loaded longer than Config.Retention
//     ago: its claim may be gone, and the save is a state.ErrConflict, after which it is loaded anew.
//   - Fences in an etcd that was restored from a backup: what was claimed since then is not in it.
package etcd
