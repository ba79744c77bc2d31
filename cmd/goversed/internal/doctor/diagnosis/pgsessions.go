package diagnosis

import (
	"fmt"
	"slices"
	"time"
)

// diagnosePGSchema checks that the tables exist, or can be made.
func diagnosePGSchema(f PostgresFacts) []Finding {
	if !f.Server.usable() {
		return nil
	}
	c, t := findings{check: CheckSchema}, f.Tables
	switch {
	case t.Exist && !t.EpochRead:
		return nil
	case t.Exist && t.Release < t.Wanted && !t.MayCreate:
		c.add(Problem, "have an administrator run the output of pgsession.SchemaSQL", "the tables in the schema %s are of "+
			"release %d, programs of this version need %d, and the user %s may not make those", f.Schema, t.Release, t.Wanted,
			f.Server.User)
	case t.Exist && t.Release < t.Wanted:
		c.add(Note, "", "the tables in the schema %s are of release %d; the first program of this version makes those of %d",
			f.Schema, t.Release, t.Wanted)
	case t.Exist && t.Release > t.Wanted:
		c.add(Note, "", "the tables in the schema %s are of release %d, and this goversed knows %d: newer programs use "+
			"them, too", f.Schema, t.Release, t.Wanted)
	case t.Exist:
	case t.MayCreate:
		c.add(Note, "", "the schema %s has no tables: the first session makes them; otherwise check --schema and the "+
			"database in --postgres", f.Schema)
	default:
		c.add(Problem, "have an administrator run the output of pgsession.SchemaSQL, and grant USAGE on the schema and all "+
			"rights on its tables", "the schema %s has no tables, and the user %s may not make them", f.Schema, f.Server.User)
	}
	return c.orOKFinding("the schema %s has the tables, of release %d", f.Schema, t.Release)
}

// diagnosePGAccess checks the user's rights.
func diagnosePGAccess(f PostgresFacts) []Finding {
	if !f.Server.usable() || !f.Tables.Exist {
		return nil
	}
	c := findings{check: CheckAccess}
	if len(f.Tables.MissingRights) > 0 {
		c.add(Problem, fmt.Sprintf("as an administrator: GRANT USAGE ON SCHEMA %s TO %s; GRANT ALL ON ALL TABLES IN SCHEMA "+
			"%[1]s TO %[2]s", f.Schema, f.Server.User), "the user %s lacks %s", f.Server.User, joinNames(f.Tables.MissingRights))
	}
	var others []string
	for _, s := range f.Sessions {
		if s.Connected && s.User != f.Server.User && s.User != "" {
			others = append(others, s.User)
		}
	}
	slices.Sort(others)
	if others = slices.Compact(others); len(others) > 0 {
		c.add(Note, "", "sessions of other users (%s): a silent one of theirs is taken over from a deadline later, because "+
			"only the same user may end its connection", joinNames(others))
	}
	return c.orOKFinding("the user %s has the rights on the tables", f.Server.User)
}

// diagnosePGEpoch checks that claims are granted.
func diagnosePGEpoch(f PostgresFacts) []Finding {
	if !f.Server.usable() || !f.Tables.EpochRead {
		return nil
	}
	c := findings{check: CheckEpoch}
	switch {
	case f.Tables.EpochOpen:
	case len(f.Sessions) == 0 && f.SessionsRead:
		c.add(Note, "", "PostgreSQL has started since the last session: the next one waits for its deadline before anything "+
			"is granted")
	default:
		c.add(Warning, "wait for the longest deadline of a session; if it stays so, look for the sessions that do not beat",
			"PostgreSQL has started or was promoted, and nothing is granted yet")
	}
	return c.orOKFinding("claims are granted")
}

// diagnosePGSessions checks that each session has a process that lives.
func diagnosePGSessions(f PostgresFacts) []Finding {
	if !f.Server.usable() || !f.SessionsRead {
		return nil
	}
	c, alive := findings{check: CheckSessions}, 0
	for _, s := range f.Sessions {
		if s.Beat {
			alive++
		}
	}
	for _, s := range f.Sessions {
		if !s.silent(f.Watched) {
			continue
		}
		what := formatCount(s.Claims, "claim")
		switch {
		case s.Connected:
			c.add(Warning, "look whether its process stands still, or the network to it is cut; others terminate its "+
				"connection after its deadline", "the session of %s sends no heartbeats, and its connection stands (%s, a "+
				"deadline of %v)",
				s.Owner, what, s.Deadline)
		case alive > 0:
			c.add(Note, "", "the process of %s has vanished: the others end its session (%s) after its deadline of %v", s.Owner,
				what, s.Deadline)
		default:
			c.add(Note, "", "the process of %s has vanished and left its session behind (%s): the next process ends it after "+
				"its deadline of %v", s.Owner, what, s.Deadline)
		}
	}
	for _, s := range f.Sessions {
		if s.Deadline < f.Deadline/2 || s.Deadline > 2*f.Deadline {
			c.add(Note, "give goversed doctor the --ttl of the programs", "the session of %s has a deadline of %v, and "+
				"PostgreSQL is judged here by %v", s.Owner, s.Deadline, f.Deadline)
			break
		}
	}
	if f.SessionsLeft > 0 {
		c.add(Note, "", "%s were not looked at", formatCount(f.SessionsLeft, "further session"))
	}
	return c.orOKFinding("%s, each with heartbeats", formatCount(len(f.Sessions), "session"))
}

// diagnosePGClaims checks that the claims belong to sessions.
func diagnosePGClaims(f PostgresFacts) []Finding {
	if !f.Server.usable() || !f.SessionsRead {
		return nil
	}
	c := findings{check: CheckClaims}
	alive := slices.ContainsFunc(f.Sessions, func(s PostgresSession) bool { return s.Beat })
	switch {
	case f.Claims.Orphans == 0:
	case alive:
		c.add(Warning, "look for transactions that hold rows of the table claim, and at the logs of the programs",
			"%s of sessions that have ended stay: another process should have removed them",
			formatCount(f.Claims.Orphans, "claim"))
	default:
		c.add(Note, "", "%s of sessions that have ended: the next process removes them",
			formatCount(f.Claims.Orphans, "claim"))
	}
	return c.orOKFinding("%d granted, %d waiting", f.Claims.Granted, f.Claims.Waiting)
}

// diagnosePGTransactions checks that no transaction keeps claims from being released.
func diagnosePGTransactions(f PostgresFacts) []Finding {
	c := findings{check: CheckTransactions}
	for _, t := range f.Transactions {
		name := ""
		if t.Name != "" {
			name = ", " + t.Name
		}
		c.add(Warning, fmt.Sprintf("end it: SELECT pg_terminate_backend(%d); set idle_in_transaction_session_timeout", t.PID),
			"a transaction has used the table claim for %s (process %d of the user %s%s, %s): if it holds a row, as a Fence "+
				"does, the next holder waits for it", formatDuration(t.Age), t.PID, t.User, name, t.State)
	}
	return c.all
}

// heartbeatsMissed is the number of deadlines without a heartbeat of a node after which it is reported. Nodes write
// theirs about once a second.
const heartbeatsMissed = 3

// diagnosePGNodes checks that the registered nodes live.
func diagnosePGNodes(f PostgresFacts) []Finding {
	if f.Nodes == nil {
		return nil
	}
	c := findings{check: CheckNodes}
	deadlines := map[int64]time.Duration{}
	for _, s := range f.Sessions {
		deadlines[s.ID] = s.Deadline
	}
	for _, n := range f.Nodes.Nodes {
		age := f.Nodes.ReadAt.Sub(n.Heartbeat)
		switch {
		case !n.Alive:
			c.add(Note, "", "the session of the node %s has ended: another node is about to remove it", n.ID)
		case age > heartbeatsMissed*max(deadlines[n.Session], time.Second):
			c.add(Warning, "look at its log, and whether its process stands still or waits for a locked row of the table node",
				"the node %s has written no heartbeat for %s", n.ID, formatDuration(age))
		}
	}
	return c.orOKFinding("%s, each with heartbeats", formatCount(len(f.Nodes.Nodes), "node"))
}

// diagnosePGLeader checks that the elections have leaders.
func diagnosePGLeader(f PostgresFacts) []Finding {
	if f.Nodes == nil {
		return nil
	}
	c, led := findings{check: CheckLeader}, []string{}
	for _, e := range f.Nodes.Elections {
		l, leads := e.Leader()
		switch {
		case leads:
			led = append(led, e.Name+" by "+l.Owner)
		case len(e.Queue) > 0 && f.Tables.EpochOpen:
			c.add(Warning, "run goversed doctor again; if it stays so, look at the log of the first candidate",
				"the election %s has %s, and none leads", e.Name, formatCount(len(e.Queue), "candidate"))
		case len(e.Queue) == 0 && e.Lease != nil && len(f.Nodes.Nodes) > 0: // an election of nodes has a lease
			c.add(Warning, "start a node that stands for election", "no candidate stands in the election %s", e.Name)
		}
	}
	if len(led) == 0 && len(c.all) == 0 {
		return nil
	}
	return c.orOKFinding("led: %s", joinNames(led))
}
