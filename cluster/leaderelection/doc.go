// Package leaderelection says who leads.
//
// A [LeaderElection] queues with concurrency.Election under <prefix>/leader,
// first come, first served, beside any program that uses that recipe on the
// same prefix. It differs in when it believes that it leads:
//
//	queued ──(the snapshot shows the own key first, the session is valid)──► leading
//	leading ──(resign, asked to give way, key lost, session lost)──► queued at the tail
//
// The snapshot may promote; the session's deadline demotes. So [LeaderElection.IsLeader]
// needs no network, and is false on the old leader before it can be true on the
// next, even after the process was paused. Every term has a token that only
// grows ([Term.Token]); [Term.Txn] makes etcd refuse a write of a term that is
// over.
//
// What to do is decided by a pure state machine, package internal/member/candidacy:
// who leads now, and which of the own keys to make, delete or repair. Everything here
// carries that out.
//
// If the election itself cannot work because etcd refuses the candidates' keys,
// or campaigning fails again and again, leadership goes by name until it works
// again; see section "Fallback" of docs/protocols.md. Having no leader for a
// moment, between two terms, is never taken for that.
//
// # What is not promised
//
// If somebody deletes the leader's key or revokes its lease, the next candidate
// leads at once; the old one notices from its watch in milliseconds, and at the
// latest at its next renewal. An outside candidate does not wait for an acting
// leader. Tokens cover both. Work that ignores the end of its context goes on;
// only the token stops it.
package leaderelection
