package diagnosis

import (
	"time"

	"github.com/goverse/goverse/cluster/pgnode"
)

// Names of the checks of PostgreSQL, besides those that etcd's have, too.
const (
	CheckServer       = "server"
	CheckPooler       = "pooler"
	CheckSchema       = "schema"
	CheckDurability   = "durability"
	CheckConnections  = "connections"
	CheckEpoch        = "epoch"
	CheckSessions     = "sessions"
	CheckClaims       = "claims"
	CheckTransactions = "transactions"
	CheckNodes        = "nodes"
)

// PostgresFacts holds what was seen of PostgreSQL and of the sessions in it.
type PostgresFacts struct {
	Schema string
	// Deadline is the one that the program's sessions have, and that the times are judged by.
	Deadline time.Duration
	Server   PostgresServer
	Tables   PostgresTables
	// Sessions lists the sessions; SessionsLeft counts those beyond the limit of the examination.
	Sessions     []PostgresSession
	SessionsLeft int
	// Watched is the time between the two looks at the sessions. SessionsRead means that both were successful, and the
	// look at the claims.
	Watched      time.Duration
	SessionsRead bool
	Claims       PostgresClaims
	// Transactions lists those that have locked rows of claims for longer than the deadline.
	Transactions []PostgresTransaction
	// Nodes has the nodes, nil if the schema has no tables of nodes.
	Nodes *pgnode.State
	// Unread is the reason why something could not be read, "" if all was.
	Unread string
}

// PostgresServer holds what was seen of the server.
type PostgresServer struct {
	// Failed is the reason why no connection was made, "" if one was. Denied means that the server refused the user.
	Failed string
	Denied bool
	// Standby means that the server takes no writes, and Pooled that a pooler of transactions is in between.
	Standby, Pooled bool
	Version         int    // as in server_version_num
	VersionText     string // as in server_version
	User            string
	// Settings has some settings by their names.
	Settings map[string]string
	// SyncStandbys is the number of standbys that commits wait for, as far as the user may see.
	SyncStandbys int
	// Connections is the number of connections in use, and Places the number that ordinary users may have.
	Connections, Places int
	// Reads and Commits are the times that a read and a commit took.
	Reads, Commits []time.Duration
	CommitFailed   string
	// ClockAhead is by how much the server's clock is ahead of this machine's, give or take ClockError.
	ClockAhead, ClockError time.Duration
}

// PostgresTables holds what was seen of the tables of the sessions.
type PostgresTables struct {
	SchemaExists, MayCreate bool // MayCreate: the user may make the schema and its tables
	Exist                   bool
	// Release is that of the tables, and Wanted that of this program's.
	Release, Wanted int
	// MissingRights lists the rights that the user lacks, as in "UPDATE on goverse.claim".
	MissingRights []string
	// EpochRead means that the release and the epoch were read, and EpochOpen that claims are granted.
	EpochRead, EpochOpen bool
}

// PostgresSession is a session.
type PostgresSession struct {
	ID       int64
	Owner    string
	Deadline time.Duration
	// Connected means that a connection holds its advisory lock; User is its user, "" if it may not be seen.
	Connected bool
	User      string
	// Beat means that a heartbeat came between the two looks, and Ended that the session was gone at the second.
	Beat, Ended bool
	Claims      int // granted or waiting
}

// silent reports whether no heartbeat came although one was due twice.
func (s PostgresSession) silent(watched time.Duration) bool {
	return !s.Beat && !s.Ended && watched >= s.Deadline/2
}

// PostgresClaims holds numbers of claims.
type PostgresClaims struct {
	Granted, Waiting int
	// Orphans is the number of claims without a session, at the second look and of those seen at the first.
	Orphans int
}

// PostgresTransaction is a transaction of any program.
type PostgresTransaction struct {
	PID   int
	User  string
	Name  string // application_name
	State string // as in pg_stat_activity
	Age   time.Duration
}
