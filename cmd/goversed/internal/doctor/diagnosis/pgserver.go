package diagnosis

import (
	"slices"
	"strings"
)

// DiagnosePostgres runs all checks on the facts about PostgreSQL. It returns at least one finding.
func DiagnosePostgres(f PostgresFacts) (out []Finding) {
	for _, check := range []func(PostgresFacts) []Finding{diagnosePGServer, diagnosePGPooler, diagnosePGDurability,
		diagnosePGConnections, diagnosePGLatency, diagnosePGClock, diagnosePGSchema, diagnosePGAccess, diagnosePGEpoch,
		diagnosePGSessions, diagnosePGClaims, diagnosePGTransactions, diagnosePGNodes, diagnosePGLeader,
		diagnosePGUnread} {
		out = append(out, check(f)...)
	}
	return out
}

// usable reports whether the server was examined.
func (s PostgresServer) usable() bool { return s.Failed == "" && !s.Standby && !s.Pooled }

// oldestPostgres is the oldest version that is tested, as in server_version_num.
const oldestPostgres = 130000

// diagnosePGServer checks that a server that takes writes answers.
func diagnosePGServer(f PostgresFacts) []Finding {
	c, s := findings{check: CheckServer}, f.Server
	switch {
	case s.Denied:
		c.add(Problem, "check the user, the password and the database in --postgres, and pg_hba.conf of the server",
			"PostgreSQL refuses the connection: %s", s.Failed)
	case s.Failed != "":
		c.add(Problem, "check the host and port in --postgres, that PostgreSQL runs there, and the network in between",
			"PostgreSQL does not answer: %s", s.Failed)
	case s.Standby:
		c.add(Problem, "name the primary, or all hosts with target_session_attrs=read-write, in --postgres",
			"the server takes no writes: it is a standby, or default_transaction_read_only is on")
	case s.Version != 0 && s.Version < oldestPostgres:
		c.add(Warning, "upgrade PostgreSQL to 13 or later", "PostgreSQL %s is older than any that Goverse is tested with",
			s.VersionText)
	case !s.Pooled:
		c.add(OK, "", "PostgreSQL %s takes writes, as the user %s", s.VersionText, s.User)
	}
	return c.all
}

func diagnosePGPooler(f PostgresFacts) []Finding {
	c := findings{check: CheckPooler}
	if f.Server.Pooled {
		c.add(Problem, "give sessions a URL of PostgreSQL itself, or of a pooler with pool_mode=session",
			"a pooler gives each transaction another connection, so no session can be opened")
	}
	return c.all
}

// diagnosePGDurability checks the settings on which the promises rest.
func diagnosePGDurability(f PostgresFacts) []Finding {
	if !f.Server.usable() {
		return nil
	}
	c, set := findings{check: CheckDurability}, f.Server.Settings
	for _, name := range []string{"fsync", "full_page_writes"} {
		if set[name] == "off" {
			c.add(Warning, "set "+name+" = on in postgresql.conf", "%s is off: after a crash of the server's machine the "+
				"tables may be damaged, and tokens may come again", name)
		}
	}
	standbys := set["synchronous_standby_names"]
	switch {
	case standbys == "":
		c.add(Note, "", "replication is not synchronous: if a standby is promoted while the old primary runs on, both "+
			"grant, unless the old one is fenced")
	case f.Server.SyncStandbys == 0:
		c.add(Note, "", "synchronous_standby_names is %s, and no synchronous standby is seen by this user", standbys)
	}
	if v := set["synchronous_commit"]; v == "off" || v == "local" {
		c.add(Note, "", "synchronous_commit is %s for this user: locks need not wait for the disk or the standbys, "+
			"heartbeats still do", v)
	}
	return c.orOKFinding("commits wait for the disk and for %s", formatCount(f.Server.SyncStandbys, "synchronous standby"))
}

// connectionsPerSession is the number of connections that a session needs.
const connectionsPerSession = 3

// diagnosePGConnections checks that there are enough connections for another process, and for a rolling update.
func diagnosePGConnections(f PostgresFacts) []Finding {
	if !f.Server.usable() || f.Server.Places == 0 {
		return nil
	}
	c := findings{check: CheckConnections}
	free, again := f.Server.Places-f.Server.Connections, connectionsPerSession*max(1, len(f.Sessions)+f.SessionsLeft)
	const remedy = "raise max_connections, or make the pools of the programs smaller"
	switch {
	case free < connectionsPerSession:
		c.add(Problem, remedy, "%d of %d connections are free, and a session needs %d", free, f.Server.Places,
			connectionsPerSession)
	case free < again:
		c.add(Warning, remedy, "%d of %d connections are free: too few to open each of %s once more, as a rolling update "+
			"may, which needs %d besides the pools", free, f.Server.Places,
			formatCount(len(f.Sessions)+f.SessionsLeft, "session"), again)
	}
	return c.orOKFinding("%d of %d connections are free", free, f.Server.Places)
}

// beatShare is the part of the deadline after which a heartbeat is sent again.
const beatShare = 5

// diagnosePGLatency checks that the server answers fast enough for the deadline.
func diagnosePGLatency(f PostgresFacts) []Finding {
	if !f.Server.usable() {
		return nil
	}
	c, commit, bound := findings{check: CheckLatency}, median(f.Server.Commits), f.Deadline/beatShare
	remedy := "raise the deadline (--ttl, or Deadline of pgsession.Config), or give PostgreSQL a faster disk or network"
	switch {
	case f.Server.CommitFailed != "":
		c.add(Warning, "look at the log of PostgreSQL, and whether its synchronous standbys run", "a commit failed or took "+
			"too long: %s", f.Server.CommitFailed)
	case len(f.Server.Commits) == 0:
		return nil
	case commit > bound:
		c.add(Problem, remedy, "a commit takes %s, and with a deadline of %v a heartbeat is due every %s",
			formatDuration(commit), f.Deadline, formatDuration(bound))
	case slices.Max(f.Server.Commits) > bound:
		c.add(Warning, remedy, "a commit took %s once, and with a deadline of %v a heartbeat is due every %s",
			formatDuration(slices.Max(f.Server.Commits)), f.Deadline, formatDuration(bound))
	}
	return c.orOKFinding("a read takes %s and a commit %s; with a deadline of %v a heartbeat is due every %s",
		formatDuration(median(f.Server.Reads)), formatDuration(commit), f.Deadline, formatDuration(bound))
}

// diagnosePGClock notes a difference of the clocks, on which nothing but times of events depends.
func diagnosePGClock(f PostgresFacts) []Finding {
	if !f.Server.usable() || f.Server.ClockError == 0 {
		return nil
	}
	c, ahead := findings{check: CheckClocks}, f.Server.ClockAhead
	if ahead.Abs() > clockTolerance+f.Server.ClockError {
		which := "ahead of"
		if ahead < 0 {
			which = "behind"
		}
		c.add(Note, "", "PostgreSQL's clock is %s %s this machine's: times of events differ by that; tokens only need a "+
			"clock that a promoted standby's is not behind", formatDuration(ahead.Abs()), which)
	}
	return c.orOKFinding("PostgreSQL's clock and this machine's agree to %s",
		formatDuration(max(ahead.Abs(), f.Server.ClockError)))
}

func diagnosePGUnread(f PostgresFacts) []Finding {
	c := findings{check: CheckUnread}
	if f.Unread != "" {
		c.add(Warning, "give a longer --timeout, or a user that may read the tables", "not everything could be read: %s",
			strings.TrimSpace(f.Unread))
	}
	return c.all
}
