package pgnode

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/internal/pg/claims"
)

// State holds the nodes and elections of a schema at one instant, with the names of the tables' columns as JSON.
type State struct {
	// ReadAt is the time of the server's clock, with which the other times can be compared.
	ReadAt time.Time `json:"read_at"`
	// Seq is that of the newest event in the log.
	Seq       int64      `json:"seq"`
	Nodes     []Row      `json:"nodes"`     // by id
	Elections []Election `json:"elections"` // by name
}

// Row is a registered node.
type Row struct {
	ID string `json:"id"` // the owner of its session
	// Alive reports whether its session stands. If not, any node is about to delete the row.
	Alive       bool   `json:"alive"`
	Session     int64  `json:"session"`
	Incarnation int64  `json:"incarnation"` // distinguishes successive registrations; it only grows
	Instance    string `json:"instance"`    // random, one per process
	Host        string `json:"host"`
	URL         string `json:"url"` // where it serves HTTP, "" if nowhere
	// State is the node's part in the election and Term the token of the leader that it last knew, by its own last
	// report. For the present leader, see [State.Elections].
	State     cluster.MemberState `json:"state"`
	Term      int64               `json:"term"`
	Version   string              `json:"version"` // of the program
	Labels    map[string]string   `json:"labels"`
	Goverse   string              `json:"goverse"` // the release of Goverse
	Heartbeat time.Time           `json:"heartbeat"`
	Created   time.Time           `json:"created"` // it registered
	Updated   time.Time           `json:"updated"` // something else than the heartbeat changed
}

// Election is an election in a schema: of nodes or of other programs with a session.
type Election struct {
	Name string `json:"name"`
	// Queue lists the candidates, first come first; the first one leads if it has a token.
	Queue []Candidate `json:"queue"`
	// Lease describes the last term of an election of nodes; nil if there was none.
	Lease *Lease `json:"lease"`
}

// Candidate is one candidate of an election.
type Candidate struct {
	Owner   string `json:"owner"` // of its session: the id of its node
	Session int64  `json:"session"`
	Token   int64  `json:"token"` // 0 unless it leads
}

// Leader returns the candidate that leads; false if none does.
func (e Election) Leader() (Candidate, bool) {
	if len(e.Queue) == 0 || e.Queue[0].Token == 0 {
		return Candidate{}, false
	}
	return e.Queue[0], true
}

// Lease is the last term of an election, as its leader has recorded it. It is for people: [Election.Leader] has the
// present leader.
type Lease struct {
	Leader   string     `json:"leader"`
	Session  int64      `json:"session"`
	Term     int64      `json:"term"` // its fencing token
	Acquired time.Time  `json:"acquired"`
	Renewed  time.Time  `json:"renewed"`
	Expires  time.Time  `json:"expires"`
	Ended    *time.Time `json:"ended"` // nil while it lasts, as far as recorded
	Host     string     `json:"host"`
	URL      string     `json:"url"`
}

// Limits of the rows that one read returns.
const (
	maxNodes     = 10000
	maxElections = 1000
)

// electionPrefix sets the names of elections apart from those of locks.
const electionPrefix = "election/"

// claimName returns the name of an election's claims as stored.
func claimName(election string) string { return claims.EscapeName(electionPrefix + election) }

// stateSQL reads a State in one statement, so at one instant. $1 is null, or the name of the claims of the one election
// to read, and $4 the id of a node that is read in any case. Any program may have written the rows, so texts are cut,
// and times and labels are brought into a form that can be read.
var stateSQL = strings.NewReplacer("{{node_times}}", readableTimes("heartbeat", "created", "updated"),
	"{{lease_times}}", readableTimes("acquired", "renewed", "expires", "ended"),
	"{{text}}", fmt.Sprint(MaxText), "{{labels}}", fmt.Sprint(4*MaxLabels)).Replace(`SELECT json_build_object(
	'read_at', clock_timestamp(),
	'seq', (SELECT max(event_seq) FROM {{schema}}.node_setting),
	'nodes', (SELECT coalesce(json_agg(n ORDER BY n.id), '[]') FROM (
		SELECT id, session, incarnation, left(instance, 64) AS instance, left(host, {{text}}) AS host,
			left(url, {{text}}) AS url, left(state, 64) AS state, term, left(version, {{text}}) AS version,
			coalesce(CASE WHEN jsonb_typeof(labels) = 'object' AND octet_length(labels::text) <= {{labels}}
				THEN (SELECT jsonb_object_agg(key, value) FROM jsonb_each_text(labels)) END, '{}') AS labels,
			left(goverse, 64) AS goverse, {{node_times}},
			EXISTS (SELECT 1 FROM {{schema}}.session s WHERE s.id = o.session) AS alive
		FROM {{schema}}.node o ORDER BY id = $4 DESC, id LIMIT $2) n),
	'leases', (SELECT coalesce(json_agg(l ORDER BY l.election), '[]') FROM (
		SELECT election, left(leader, {{text}}) AS leader, session, term, {{lease_times}}, left(host, {{text}}) AS host,
			left(url, {{text}}) AS url
		FROM {{schema}}.lease ORDER BY election LIMIT $3) l),
	'queues', (SELECT coalesce(json_agg(q ORDER BY q.name), '[]') FROM (
		SELECT c.name, json_agg(json_build_object('owner', s.owner, 'session', c.session, 'token', coalesce(c.token, 0))
			ORDER BY c.place) queue
		FROM {{schema}}.claim c JOIN {{schema}}.session s ON s.id = c.session
		WHERE CASE WHEN $1::text IS NULL THEN starts_with(c.name, 'election/') ELSE c.name = $1 END
		GROUP BY c.name ORDER BY c.name LIMIT $3) q))`)

// readableTimes selects columns of times, with those that have no form in Go as the nearest one that has: PostgreSQL
// has infinity and years of five digits, and for early years time zones with seconds.
func readableTimes(columns ...string) string {
	for i, c := range columns {
		columns[i] = fmt.Sprintf("CASE WHEN %[1]s < '1980-01-01Z' THEN '1980-01-01Z' WHEN %[1]s > '9999-12-30Z' "+
			"THEN '9999-12-30Z' ELSE %[1]s END AS %[1]s", c)
	}
	return strings.Join(columns, ", ")
}

// storedState is the result of stateSQL.
type storedState struct {
	ReadAt time.Time `json:"read_at"`
	Seq    int64     `json:"seq"`
	Nodes  []Row     `json:"nodes"`
	Leases []struct {
		Election string `json:"election"`
		Lease
	} `json:"leases"`
	Queues []struct {
		Name  string      `json:"name"`
		Queue []Candidate `json:"queue"`
	} `json:"queues"`
}

// Read reads the nodes and the elections in a schema, "" for the default one, at one instant. It needs no node and no
// session. It blocks until PostgreSQL has answered, or ctx ends. Errors are [ErrNoTables], PostgreSQL's and ctx's.
func Read(ctx context.Context, db Querier, schema string) (State, error) {
	if err := requireTables(ctx, db, schema); err != nil {
		return State{}, fmt.Errorf("read the nodes in PostgreSQL: %w", err)
	}
	var text []byte
	if err := db.QueryRow(ctx, in(schema, stateSQL), nil, maxNodes, maxElections, "").Scan(&text); err != nil {
		return State{}, fmt.Errorf("read the nodes in PostgreSQL: %w", err)
	}
	return parseState(text)
}

// parseState parses the result of stateSQL.
func parseState(text []byte) (State, error) {
	var stored storedState
	if err := json.Unmarshal(text, &stored); err != nil {
		return State{}, fmt.Errorf("read the nodes in PostgreSQL: %w", err)
	}
	s := State{ReadAt: stored.ReadAt, Seq: stored.Seq, Nodes: stored.Nodes, Elections: []Election{}}
	leases := stored.Leases
	addLeases := func(before func(election string) bool) {
		for len(leases) > 0 && before(leases[0].Election) {
			s.Elections = append(s.Elections, Election{Name: leases[0].Election, Queue: []Candidate{}, Lease: &leases[0].Lease})
			leases = leases[1:]
		}
	}
	for _, q := range stored.Queues {
		name := claims.UnescapeName(strings.TrimPrefix(q.Name, electionPrefix))
		addLeases(func(election string) bool { return election < name })
		e := Election{Name: name, Queue: q.Queue}
		if len(leases) > 0 && leases[0].Election == name {
			e.Lease, leases = &leases[0].Lease, leases[1:]
		}
		s.Elections = append(s.Elections, e)
	}
	addLeases(func(string) bool { return true })
	return s, nil
}

// election returns an election by its name; without a queue and a lease if there is none.
func (s State) election(name string) Election {
	for _, e := range s.Elections {
		if e.Name == name {
			return e
		}
	}
	return Election{Name: name}
}
