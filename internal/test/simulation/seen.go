package simulation

import "github.com/goverse/goverse/internal/test/schedule"

// The events that are counted, besides the faults and the outcomes of requests.
const (
	TermBegan         = "terms"
	TermAlone         = "terms of processes in the election only"
	ActingTerm        = "terms in fallback"
	Resigned          = "terms ended: resigned"
	GaveWay           = "terms ended: requested"
	Withdrawn         = "terms ended: stopped"
	KeyLost           = "terms ended: key lost"
	SessionLost       = "terms ended: session lost"
	Superseded        = "terms ended: superseded"
	WorkAwaited       = "terms ended while their work was running"
	WriteAccepted     = "guarded writes accepted"
	WriteRefused      = "guarded writes refused"
	SessionExpired    = "sessions lost: expired or etcd unreachable"
	SessionPaused     = "sessions lost: paused past the deadline"
	SessionRevoked    = "sessions lost: revoked"
	SessionPermission = "sessions lost: permission"
	SessionKeyLost    = "sessions lost: key lost"
	WatchCompared     = "views compared with etcd"
	KeyMissed         = "keys missed by a renewal"
	KeyRewritten      = "candidates' keys rewritten"
	ViewReadAnew      = "views read again"
	CampaignFailed    = "failed requests of campaigns"
	Accused           = "accusations"
	Refuted           = "accusations refuted, as seen by the accuser"
	Withdrew          = "accusations withdrawn"
	DeadRemoved       = "members removed: dead"
	LivingRemoved     = "members removed: alive"
	CrashNoticed      = "crashes noticed in time, by each unhindered watcher"
	FarAccused        = "accusations of members far from etcd"
	Recorded          = "member records rewritten"
	Suspected         = "suspicions"
	Suspended         = "sessions suspended"
	Resumed           = "sessions resumed"
	PlanAccepted      = "shard maps accepted"
	PlanActing        = "shard maps accepted from an acting leader"
	PlanOutside       = "shard maps accepted beside a leader that is no node"
	PlanTooLate       = "shard maps refused: another member had to plan"
	PlanOvertaken     = "shard maps refused: another map was written first"
	PlanBeside        = "shard maps of a second planner: the first one's record was altered out of band"
	ShardAssigned     = "shards assigned that had no owner"
	ShardDrained      = "shards drained from a member"
	ShardRebalanced   = "shards rebalanced"
	ShardServed       = "shards served"
	Reported          = "reports of released shards"
	Straggled         = "reports with stragglers"
	StopDrained       = "stops: shards handed over"
	StopLast          = "stops: no other member could own shards"
	StopCut           = "stops: shards not handed over"
	StopSilent        = "stops: etcd did not answer"
	StopRecorded      = "stops: recorded that no member need wait"
	MapTaken          = "shard maps changed out of band"
	ReportTaken       = "reports changed out of band"
	EarlyReported     = "registrations that report a lease revoked early by etcd"

	BeatAcknowledged    = "heartbeats acknowledged"
	ProofRead           = "reads that prove"
	SilenceAccused      = "accusations of silence"
	SilenceWithdrawn    = "accusations of silence withdrawn"
	SilenceRefuted      = "accusations of silence refuted"
	SilentDeadRemoved   = "members removed for silence: dead"
	SilentLostRemoved   = "members removed for silence: alive, with another session"
	SilentLivingRemoved = "members removed for silence: alive"
	RemovalReported     = "removals for silence reported to members"
	SilenceNoticed      = "silences noticed in time, by each unhindered watcher"
)

// originator is the originator of the loss of a living member's key or lease. Its text completes "exempt: leaders".
type originator string

const (
	byNobody    originator = ""
	byOutOfBand originator = "whose key or lease was taken out of band"
	byRemoval   originator = "that were removed on evidence"
	bySilence   originator = "that were removed for silence"
	// A deposed leader of etcd revokes all leases, or steps down before it has done so.
	byEtcdEarly        originator = "whose lease etcd revoked early"
	byEtcdPartly       originator = "whose lease etcd revoked early, but not all others'"
	byOutsideCandidate originator = "in fallback beside an outside candidate"
)

// keyless returns the name of the cases in which leaders continued until they noticed their loss.
func (o originator) keyless() string { return "exempt: leaders " + string(o) }

// overlaps returns the name of the cases in which another process led as well.
func (o originator) overlaps() string {
	return "exempt: leaders " + string(o) + ": beside the next one"
}

// besideCause is the reason why two processes may hold one shard. Its text is the name of the counted cases.
type besideCause string

const (
	besideOutOfBand besideCause = "exempt: shard held twice: the older owner's key or lease was taken"
	besideRemoval   besideCause = "exempt: shard held twice: the older owner was removed on evidence"
	besideMapChange besideCause = "exempt: shard held twice: the map or a report was changed out of band"
)

// late returns the name of the cases in which the older owner began to serve after the newer one.
func (b besideCause) late() string { return string(b) + ", and the older owner began later" }

// requiredEvents returns the events that a complete run has.
func requiredEvents() []string {
	events := []string{TermBegan, TermAlone, ActingTerm, Resigned, GaveWay, Withdrawn, KeyLost, SessionLost, Superseded,
		WorkAwaited, WriteAccepted, WriteRefused, string(schedule.Late), string(schedule.Unanswered), SessionExpired,
		SessionPaused, SessionRevoked, SessionPermission, SessionKeyLost, WatchCompared, KeyMissed, KeyRewritten,
		ViewReadAnew, CampaignFailed, Accused, Refuted, Withdrew, DeadRemoved, LivingRemoved, CrashNoticed, FarAccused,
		Recorded, Suspected, Suspended, Resumed, PlanAccepted, PlanActing, PlanOutside, PlanTooLate, PlanOvertaken,
		PlanBeside, ShardAssigned, ShardDrained, ShardRebalanced, ShardServed, Reported, Straggled, StopDrained, StopLast,
		StopCut, StopSilent, StopRecorded, MapTaken, ReportTaken, EarlyReported, byOutOfBand.keyless(), byRemoval.keyless(),
		byEtcdEarly.keyless(), byEtcdPartly.keyless(), byOutsideCandidate.overlaps(), string(besideOutOfBand),
		string(besideRemoval), string(besideMapChange)}
	for _, k := range allFaults() {
		events = append(events, k.Event())
	}
	return append(events, silenceEvents()...)
}

// silenceEvents returns the events that a complete run has if members accuse others of silence.
func silenceEvents() []string {
	events := []string{BeatAcknowledged, ProofRead, SilenceAccused, SilenceWithdrawn, SilenceRefuted, SilentDeadRemoved,
		SilentLostRemoved,
		SilentLivingRemoved, RemovalReported, SilenceNoticed}
	for _, k := range silenceFaults() {
		events = append(events, k.Event())
	}
	return events
}
