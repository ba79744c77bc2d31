// Package mutant holds the known ways to get this wrong, as switches. Tests turn
// them on one by one and show that the fault runs or the simulation find each of
// them: a checker that never finds anything proves nothing.
//
//	if mutant.Is(mutant.DeadlineFromReceipt) { sent = received }
//
// Without the build tag "mutants" Is is a constant false, and the compiler leaves
// the branch out: no program that is built in the ordinary way contains a bug. With
// the tag, Set chooses one, and a process takes the one that the environment
// variable GOVERSE_MUTANT names.
//
// Not promised: that these are all the ways.
package mutant

// Name is the name of one mutant.
type Name string

// The mutants, each with what it leaves out.
const (
	// DeadlineFromReceipt counts a session's deadline from when the renewal's answer
	// came, not from when the renewal was sent.
	DeadlineFromReceipt Name = "deadline-from-receipt"
	// LateAnswerCounts lets a renewal that was answered after the deadline bring the
	// session back.
	LateAnswerCounts Name = "late-answer-counts"
	// SuspicionIgnored lets a member go on as before when a watcher's stream broke and
	// etcd does not answer.
	SuspicionIgnored Name = "suspicion-ignored"
	// PeriodGoesOn lets a session that was suspended count again as if it had counted all
	// the time, and its term go on.
	PeriodGoesOn Name = "period-goes-on"
	// TermUnchecked counts a renewal whose read was answered in another term of etcd's leader.
	TermUnchecked Name = "term-unchecked"
	// KeysNotChecked lets a renewal succeed whose read missed the own keys.
	KeysNotChecked Name = "keys-not-checked"
	// LeadWithoutSession leads because the own key is first, also when the session
	// is not valid.
	LeadWithoutSession Name = "lead-without-session"
	// LeadBesideActing leads while an acting leader's key still stands.
	LeadBesideActing Name = "lead-beside-acting"
	// AdoptBarredKey leads by a key for which a deletion was sent, or under which a
	// term ended.
	AdoptBarredKey Name = "adopt-barred-key"
	// LateKeyStays leaves a key on the own lease that is not wanted.
	LateKeyStays Name = "late-key-stays"
	// CampaignTrusted waits for a campaign to return, though the key that it queues
	// with is gone.
	CampaignTrusted Name = "campaign-trusted"
	// FlagAfterDelete gives the key up first and lowers the flag when etcd has
	// confirmed it.
	FlagAfterDelete Name = "flag-after-delete"
	// FallbackWithoutFailure acts as soon as the queue is empty, though no election
	// failed.
	FallbackWithoutFailure Name = "fallback-without-failure"
	// ActingUnguarded creates the acting leader's key without comparing the queue
	// as empty.
	ActingUnguarded Name = "acting-unguarded"
	// RemoveWithoutGrace removes an accused member at once.
	RemoveWithoutGrace Name = "remove-without-grace"
	// DistanceIgnored gives an accused member no more time where it is far from etcd.
	DistanceIgnored Name = "distance-ignored"
	// RemoveUnguarded removes an accused member also after it refuted.
	RemoveUnguarded Name = "remove-unguarded"
	// RefuteNothing leaves accusations against the own living member alone.
	RefuteNothing Name = "refute-nothing"
	// SilenceIsEvidence takes a time-out for a refusal.
	SilenceIsEvidence Name = "silence-is-evidence"
	// WriteUnfenced leaves the fence out of a term's transactions.
	WriteUnfenced Name = "write-unfenced"
	// WatchFromNow watches from the newest revision, not from the one after the read.
	WatchFromNow Name = "watch-from-now"
	// SilenceTrusted takes a watch that delivers nothing for one with nothing to tell.
	SilenceTrusted Name = "silence-trusted"
	// PauseTrusted lets a process that stood still claim on what it had, though etcd may have revoked its
	// lease early.
	PauseTrusted Name = "pause-trusted"
	// NobodyLingers lets others take over at once from a member whose lease was revoked, though it may
	// have been renewed in time.
	NobodyLingers Name = "nobody-lingers"
	// LackIgnored takes a watch that brings nothing for one that lacks nothing, though a comparison
	// with etcd shows what it lacks.
	LackIgnored Name = "lack-ignored"
	// TakeoverUnreleased serves a shard without waiting for the one before to release it.
	TakeoverUnreleased Name = "takeover-unreleased"
	// OwnerByAddress takes an owner at the own address for itself, whatever its incarnation.
	OwnerByAddress Name = "owner-by-address"
	// StaleReportAccepted takes a report about an older map for one about this.
	StaleReportAccepted Name = "stale-report-accepted"
	// EpochIgnored keeps a shard that was given to it anew, under the old epoch.
	EpochIgnored Name = "epoch-ignored"
	// MapUnfenced writes the shard map without the planner's fence.
	MapUnfenced Name = "map-unfenced"
	// LapsedKept keeps a shard that was acquired before the session was suspended.
	LapsedKept Name = "lapsed-kept"
	// ActivationStays keeps the objects of a shard that leaves, until it comes back.
	ActivationStays Name = "activation-stays"
)

// The mutants of package leasequeue, which has a simulation of its own.
const (
	// SilenceNotMade sends a batch again whose answer was lost, as if it had not been made.
	SilenceNotMade Name = "silence-not-made"
	// BatchUnnumbered sends a batch without the condition that the one before it is the last.
	BatchUnnumbered Name = "batch-unnumbered"
	// BarredKeyGiven gives out a key that a request under way may still delete.
	BarredKeyGiven Name = "barred-key-given"
	// EnterBesideLeaving enters while another place's deletion is under way in another lane.
	EnterBesideLeaving Name = "enter-beside-leaving"
	// ReleaseUnguarded deletes the keys of those who leave without a number and without their own
	// condition.
	ReleaseUnguarded Name = "release-unguarded"
	// FoundIsFirst takes a place for first whose answer was lost.
	FoundIsFirst Name = "found-is-first"
	// GoneUnnoticed never looks whether a key of its own is gone.
	GoneUnnoticed Name = "gone-unnoticed"
	// WatchTrusted reads a queue once, and believes its watch from then on.
	WatchTrusted Name = "watch-trusted"
	// RefusedForgotten never tries again to give up a place that it was refused to.
	RefusedForgotten Name = "refused-forgotten"
	// GoneIsGivenUp takes every place that is gone from etcd for one that was given up.
	GoneIsGivenUp Name = "gone-is-given-up"
	// UnwantedStays leaves a place in the queue that was given up before etcd had answered.
	UnwantedStays Name = "unwanted-stays"
)

// Queues are those of package leasequeue.
func Queues() []Name {
	return []Name{SilenceNotMade, BatchUnnumbered, BarredKeyGiven, EnterBesideLeaving, ReleaseUnguarded, FoundIsFirst,
		GoneUnnoticed, WatchTrusted,
		RefusedForgotten, GoneIsGivenUp, UnwantedStays}
}

// Sessions are those that package etcdsession finds over several members of etcd.
func Sessions() []Name { return []Name{TermUnchecked, DeadlineFromReceipt} }

// Pure are those of the pure packages, which package simulation finds.
func Pure() []Name {
	return []Name{DeadlineFromReceipt, LateAnswerCounts, SuspicionIgnored, PeriodGoesOn, KeysNotChecked,
		LeadWithoutSession,
		LeadBesideActing, AdoptBarredKey, LateKeyStays, CampaignTrusted, FlagAfterDelete, FallbackWithoutFailure,
		ActingUnguarded,
		RemoveWithoutGrace, DistanceIgnored, RemoveUnguarded, RefuteNothing, SilenceIsEvidence, WriteUnfenced, WatchFromNow,
		SilenceTrusted,
		NobodyLingers, LackIgnored,
		TakeoverUnreleased, OwnerByAddress, StaleReportAccepted, EpochIgnored, MapUnfenced, LapsedKept}
}
