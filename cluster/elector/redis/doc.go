// Package redis is a lease store for package elector in one key of Redis, which one script compares and swaps. It
// works with a client of one server, of Sentinel, or of a cluster, and needs Redis 6.2 or later.
//
//	client := goredis.NewUniversalClient(&goredis.UniversalOptions{Addrs: addresses, ContextTimeoutEnabled: true})
//	store, err := redis.New(redis.Config{Client: client, Key: "reports:lease"})
//	e, err := elector.New(elector.Config{LeaseStore: store, CandidateID: host, …})
//
// Redis may lose writes that it has confirmed, as described below. If two leaders at once would do damage, or a token
// that is given twice, keep the lease in etcd or PostgreSQL.
//
// The record is JSON, and the key has no expiry: candidates wait by their own clocks, and the token must outlive its
// leader. A read is sent as GETEX with PERSIST, which Redis treats as a write. So a cluster client sends it to the
// master even if its other reads go to replicas, a replica refuses it, and an expiry set by another program is removed.
//
// These settings of the server keep the record:
//
//   - maxmemory-policy noeviction, or a policy that begins with volatile. The others may evict a key without expiry.
//   - appendonly yes and appendfsync always. With appendfsync everysec, a crash of the host loses the last second;
//     with snapshots alone, a restart loses every write since the last snapshot.
//   - min-replicas-to-write 1 and min-replicas-max-lag 10, where a replica may be promoted. A master that has lost its
//     replicas then refuses requests after some 10 s.
//
// If the record was lost, stop all candidates and write one that continues the numbers. Here 41 is at least the largest
// token ever used, and the version is a text that no record had before:
//
//	SET reports:lease '{"version":"restored 2031-02-03","leaderTransitions":41}'
//
// # What is not promised
//
//   - A failover loses the writes that the promoted replica had not received, because Redis confirms a write before it
//     replicates it. A lost renewal costs nothing: the leader renews the older record. A lost acquisition costs the
//     lease: another candidate takes it at once if it was vacant before, and both lead until the first one reaches the
//     new master or its lease runs out. The second gets the same token as the first, or a smaller one if several terms
//     were lost, so no system can refuse the first one's writes.
//   - A former master that still runs, cut off from its replicas but not from the leader, goes on confirming renewals.
//     Two candidates then lead for as long as that lasts. min-replicas-to-write bounds it: the leader's term ends some
//     min-replicas-max-lag and a LeaseDuration after the master was cut off. WAIT would not: it counts the replicas
//     that have a write, but neither withdraws the write nor makes a failover choose one of them.
//   - A restart that loses the record, an eviction, and a deletion leave the lease vacant. Another candidate may take
//     it, and two lead until the first one's next request. Tokens begin at 1 again, unless a candidate that still runs
//     has seen larger ones.
//   - A handover is not immediate. The store is not watched, so the next candidate leads up to RetryPeriod after a
//     release.
//   - A request under way does not notice that its context was cancelled. It returns with its answer, at the deadline
//     of the context, or at the client's ReadTimeout. Each request of an elector has a deadline.
//
// Experimental: the API of this package may change in any minor release.
package redis
