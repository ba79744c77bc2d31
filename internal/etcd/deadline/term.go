package deadline

// Confirmed reports whether a renewal that etcd answered with the one raft term in its header counts,
// when a linearizable read that was sent after that answer came was answered with the other.
//
// Leases are renewed by etcd's leader alone, in its memory. One that stood still, and was deposed
// meanwhile, does not know that when it goes on: it answers the renewals that wait for it, and its
// successor knows nothing of them. The terms tell. All of this is of etcd's sources, 3.4 to 3.7:
//
//  1. The header of a renewal's answer is filled before the lease is renewed, with the term of the
//     last entry that the answering member had applied. So when it renewed, that term h had begun:
//     a majority had voted in it. The leader that renewed had been elected in a term of h or later: a
//     member stops being leader before it applies an entry of a later term, and one that passes the
//     renewal on passes it to a leader that it knows of since h or later.
//  2. The read is answered after the leader of some term r' was confirmed by a majority, after the
//     read was sent; and by a member that has applied what that leader had committed, an entry of
//     its own term among it. So the term r in its header is r' or later.
//  3. If r = h then r' is not later than h, and not earlier either: a majority had voted in h before,
//     and one of those would not have confirmed an earlier leader. So the leader of h was confirmed
//     after the renewal, and none of a later term had been elected by then. So it was the one that renewed.
//  4. The one that leads after it is elected after that, and begins by giving every lease its whole TTL. So
//     nobody has the lease end before its TTL has passed since the renewal was sent.
//
// If the terms differ nothing is known, and the renewal is made again. A lease that was just granted
// needs none of this: the grant is an entry of the log, and every leader that has it begins to count later.
//
// Assumed: clocks of etcd's members that run at the rate of ours to within the margin; that a member
// fills the header of the read after it applied what it waited for, and counts an entry as applied no sooner
// than it knows its term. (etcd sets the two one right after the other. A member that was sent a whole
// snapshot because it was thousands of entries behind keeps the former term until the next entry: for
// so long it could confirm a renewal of its own from before.) Where etcd checkpoints leases, which it does not
// by default, a new leader gives one that was not renewed for five minutes only what was left of it then:
// TTLs of a quarter of an hour and more are not for that. A leader that has leases revoked when it
// is none any more breaks step 4, see etcd's issue 15247.
func Confirmed(renewed, read uint64) bool { return renewed == read }
