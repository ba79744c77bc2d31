package deadline

// RenewalConfirmed reports whether a renewal counts. renewed is the raft term in the header of its answer, and read
// the one in the answer to a linearizable read that was sent after that answer had arrived.
//
// Only etcd's leader renews leases, and only in its memory. A leader that stood still and was deposed meanwhile
// is not aware of that when it continues. It answers the renewals that wait for it, and its successor does not
// know of them. The raft terms reveal this. The argument follows etcd's sources, 3.4 to 3.7:
//
//  1. The header of a renewal's answer is filled before the lease is renewed, with the term of the
//     last entry that the answering member had applied. So this term h had begun when the lease was
//     renewed: a majority had voted in it. The leader that renewed was elected in h or later, because
//     a member stops being leader before it applies an entry of a later term, and a member that
//     forwards the renewal forwards it to a leader that it has known since h or later.
//  2. The read is answered after a majority confirmed the leader of some term r', after the read was
//     sent. It is answered by a member that has applied the entries which that leader had committed,
//     one of its own term among them. So the term r in its header is r' or later.
//  3. If r = h, then r' is not later than h. It is not earlier either: a majority had already voted in
//     h, and its members would not have confirmed an earlier leader. So the leader of h was confirmed
//     after the renewal, and no leader of a later term had been elected by then. It was the leader
//     that renewed.
//  4. Any later leader is elected after that, and begins by giving every lease its whole TTL. So no
//     leader ends the lease before its TTL has passed since the renewal was sent.
//
// If the terms differ, nothing follows, and the lease is renewed again. A lease that was just granted needs
// none of this: the grant is an entry of the log, and every leader that has the entry begins to count later.
//
// Assumptions: The clocks of etcd's members run at the rate of ours to within the margin. A member fills the
// header of the read after it applied the entries that the read waited for, and counts an entry as applied no
// sooner than it knows its term. (etcd sets the two one right after the other. A member that received a whole
// snapshot, because it was thousands of entries behind, keeps the former term until the next entry. Until then
// it could confirm a renewal of its own from before.) If etcd checkpoints leases, which is off by default, a
// new leader gives a lease that was not renewed for five minutes only the remainder that was checkpointed, so
// TTLs of a quarter of an hour and more are not covered. A deposed leader that has leases revoked breaks step
// 4, see etcd's issue 15247.
func RenewalConfirmed(renewed, read uint64) bool { return renewed == read }
