package diagnosis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/pgnode"
)

// healthyPostgres returns facts without anything to report but that replication is not synchronous.
func healthyPostgres() PostgresFacts {
	const ms = time.Millisecond
	at := time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC)
	return PostgresFacts{Schema: "goverse", Deadline: 3 * time.Second, Watched: 2 * time.Second, SessionsRead: true,
		Server: PostgresServer{Version: 150000, VersionText: "15.0", User: "u", Connections: 10, Places: 97,
			Settings: map[string]string{"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"},
			Reads:    []time.Duration{ms, ms}, Commits: []time.Duration{2 * ms, 3 * ms}, ClockError: ms},
		Tables: PostgresTables{SchemaExists: true, Exist: true, Release: 1, Wanted: 1, MayCreate: true, EpochRead: true,
			EpochOpen: true},
		Sessions: []PostgresSession{{ID: 1, Owner: "a", Deadline: 3 * time.Second, Connected: true, User: "u", Beat: true,
			Claims: 1}},
		Claims: PostgresClaims{Granted: 1},
		Nodes: &pgnode.State{ReadAt: at, Nodes: []pgnode.Row{{ID: "a", Alive: true, Session: 1, Heartbeat: at}},
			Elections: []pgnode.Election{{Name: "leader", Queue: []pgnode.Candidate{{Owner: "a", Session: 1, Token: 7}},
				Lease: &pgnode.Lease{Leader: "a"}}}}}
}

func TestPostgresFindings(t *testing.T) {
	t.Parallel()
	require.Equal(t, Note, Worst(DiagnosePostgres(healthyPostgres())))
	for name, c := range map[string]struct {
		change func(f *PostgresFacts)
		check  string
		is     Severity
		says   string
	}{
		"old": {func(f *PostgresFacts) { f.Server.Version, f.Server.VersionText = 120000, "12.1" }, CheckServer, Warning,
			"PostgreSQL 12.1 is older"},
		"down": {func(f *PostgresFacts) { f.Server.Failed = "refused" }, CheckServer, Problem, "does not answer: refused"},
		"denied": {func(f *PostgresFacts) { f.Server.Failed, f.Server.Denied = "no", true }, CheckServer, Problem,
			"refuses the connection: no"},
		"standby": {func(f *PostgresFacts) { f.Server.Standby = true }, CheckServer, Problem, "takes no writes"},
		"pooler":  {func(f *PostgresFacts) { f.Server.Pooled = true }, CheckPooler, Problem, "a pooler gives"},
		"no pages": {func(f *PostgresFacts) { f.Server.Settings["full_page_writes"] = "off" }, CheckDurability, Warning,
			"full_page_writes is off"},
		"no commit": {func(f *PostgresFacts) { f.Server.Settings["synchronous_commit"] = "local" }, CheckDurability, Note,
			"synchronous_commit is local"},
		"synchronous": {func(f *PostgresFacts) {
			f.Server.Settings["synchronous_standby_names"], f.Server.SyncStandbys = "*", 2
		}, CheckDurability, OK, "for 2 synchronous standbys"},
		"full": {func(f *PostgresFacts) { f.Server.Connections = 95 }, CheckConnections, Problem,
			"2 of 97 connections are free, and a session needs 3"},
		"nearly full": {func(f *PostgresFacts) { f.Server.Connections, f.SessionsLeft = 90, 3 }, CheckConnections, Warning,
			"to open each of 4 sessions once more, as a rolling update may, which needs 12"},
		"slow": {func(f *PostgresFacts) { f.Deadline = 10 * time.Millisecond }, CheckLatency, Problem,
			"a commit takes 3ms, and with a deadline of 10ms a heartbeat is due every 2ms"},
		"slow once": {func(f *PostgresFacts) { f.Server.Commits = append(f.Server.Commits, time.Second, 0, 0) }, CheckLatency,
			Warning, "a commit took 1s once"},
		"commit fails": {func(f *PostgresFacts) { f.Server.CommitFailed = "x" }, CheckLatency, Warning, "too long: x"},
		"clock ahead": {func(f *PostgresFacts) { f.Server.ClockAhead = time.Minute }, CheckClocks, Note,
			"clock is 1m0s ahead of this"},
		"clock behind": {func(f *PostgresFacts) { f.Server.ClockAhead = -time.Minute }, CheckClocks, Note,
			"clock is 1m0s behind this"},
		"older tables": {func(f *PostgresFacts) { f.Tables.Wanted = 2 }, CheckSchema, Note, "are of release 1; the first"},
		"older tables for good": {func(f *PostgresFacts) { f.Tables.Wanted, f.Tables.MayCreate = 2, false }, CheckSchema,
			Problem, "release 1, programs of this version need 2, and the user u may not make those"},
		"rights": {func(f *PostgresFacts) { f.Tables.MissingRights = []string{"UPDATE on claim"} }, CheckAccess, Problem,
			"the user u lacks UPDATE on claim"},
		"epoch without sessions": {func(f *PostgresFacts) { f.Tables.EpochOpen, f.Sessions = false, nil }, CheckEpoch, Note,
			"the next one waits"},
		"epoch": {func(f *PostgresFacts) { f.Tables.EpochOpen = false }, CheckEpoch, Warning, "nothing is granted yet"},
		"watched too shortly": {func(f *PostgresFacts) { f.Watched, f.Sessions[0].Beat = time.Second, false }, CheckSessions,
			OK, "1 session"},
		"ended": {func(f *PostgresFacts) { f.Sessions[0].Beat, f.Sessions[0].Ended = false, true }, CheckSessions, OK, ""},
		"more":  {func(f *PostgresFacts) { f.SessionsLeft = 3 }, CheckSessions, Note, "3 further sessions were not"},
		"orphans": {func(f *PostgresFacts) { f.Claims.Orphans = 2 }, CheckClaims, Warning,
			"2 claims of sessions that have ended stay"},
		"node gone": {func(f *PostgresFacts) { f.Nodes.Nodes[0].Alive = false }, CheckNodes, Note, "the node a has ended"},
		"node silent": {func(f *PostgresFacts) { f.Nodes.ReadAt = f.Nodes.ReadAt.Add(10 * time.Second) }, CheckNodes, Warning,
			"the node a has written no heartbeat for 10s"},
		"no leader": {func(f *PostgresFacts) { f.Nodes.Elections[0].Queue[0].Token = 0 }, CheckLeader, Warning,
			"the election leader has 1 candidate, and none leads"},
		"no candidate": {func(f *PostgresFacts) { f.Nodes.Elections[0].Queue = nil }, CheckLeader, Warning,
			"no candidate stands in the election leader"},
		"unread": {func(f *PostgresFacts) { f.Unread = "x" }, CheckUnread, Warning, "could be read: x"},
	} {
		f := healthyPostgres()
		c.change(&f)
		all := DiagnosePostgres(f)
		require.True(t, slices.ContainsFunc(all, func(one Finding) bool {
			return one.Check == c.check && one.Severity == c.is && strings.Contains(one.Description, c.says)
		}), "%s: %+v", name, all)
		if c.is >= Warning {
			require.Equal(t, c.is, Worst(all), name)
		}
		for _, one := range all {
			require.True(t, one.Severity <= Note || one.Remedy != "", one)
		}
	}
}

// What was not read is not judged.
func TestUnreadPostgresIsNotJudged(t *testing.T) {
	t.Parallel()
	f := healthyPostgres()
	f.Tables.EpochRead, f.Tables.EpochOpen, f.Tables.Release = false, false, 0
	f.SessionsRead, f.Sessions, f.Claims, f.Nodes = false, nil, PostgresClaims{}, nil
	for _, one := range DiagnosePostgres(f) {
		require.NotContains(t, []string{CheckSchema, CheckEpoch, CheckSessions, CheckClaims, CheckNodes, CheckLeader},
			one.Check, one)
	}
}
