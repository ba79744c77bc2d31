// Package etcd keeps the states of objects in etcd. It suits small states of up to 1 MiB that do not change
// often. A record is one key. A save replaces it, together with the reply to the call, in a transaction that
// succeeds only if no other write has come between.
//
//	store, err := etcd.New(etcd.Config{Client: client, Prefix: "/shop-objects"})
//	s, err := state.Load(ctx, store, o, &pb.Settings{})
//
// Below the prefix, a record has the key records/<service>/<key>. Its value is the epoch in 8 bytes, one byte
// that is 1 if there is a state, and the state. A reply has the key replies/<service>/<key>/<request id>. Names
// are escaped as in URLs.
//
// Replies, and the claims of objects without a state, end with a lease. Each process uses one lease for an
// eighth of Config.Retention or for 4096 keys, so they are kept for up to an eighth longer.
//
// # What is not promised
//
//   - etcd does not hold as much as a database. It keeps all states in memory, within its quota (2 GiB by
//     default), and every member of etcd logs each save.
//   - An object that never had a state may be impossible to save if it was loaded longer than Config.Retention
//     ago. Its claim may be gone; the save is then a state.ErrConflict, after which the object is loaded anew.
//   - An etcd that was restored from a backup does not fence claims that were made after the backup.
//
// Experimental: the API of this package may change in any minor release.
package etcd
