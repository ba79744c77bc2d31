package schedule

// The names of faults that several kinds of tests inject, in schedules or in real processes.
const (
	CutOff              = "cut off from etcd"
	WatchFrozen         = "watch frozen"
	WatchBroken         = "watch broken"
	WatchEnded          = "watch ended by etcd"
	Compaction          = "compaction"
	CompactionUnderLoad = "compaction under load"
	LeaseRevoked        = "lease revoked out of band"
	KeyDeleted          = "key deleted out of band"
	LockKeyDeleted      = "lock's key deleted out of band"
	ProcessKilled       = "process killed"
	ProcessStopped      = "process stopped"
	ProcessPaused       = "process paused"
	PortRefuses         = "node's port refuses"
	MemberStopped       = "etcd member stopped"
)
