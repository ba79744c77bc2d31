package pgnode

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
)

// The statements of a refresh. They wait for no row that another transaction has locked.
const (
	beatSQL = `UPDATE {{schema}}.node SET heartbeat = clock_timestamp(), state = $3, term = $4,
			updated = CASE WHEN (state, term) = ($3, $4) THEN updated ELSE clock_timestamp() END
		WHERE id = (SELECT id FROM {{schema}}.node WHERE id = $1 AND incarnation = $2 FOR UPDATE SKIP LOCKED)`
	renewSQL = `UPDATE {{schema}}.lease SET renewed = clock_timestamp() - $3 * interval '1 microsecond',
			expires = clock_timestamp() + $4 * interval '1 microsecond'
		WHERE election = (SELECT election FROM {{schema}}.lease
			WHERE election = $1 AND term = $2 AND ended IS NULL FOR UPDATE SKIP LOCKED)`
)

// refresh reports that the node lives, and reads the nodes and the election, in one round trip.
func (n *Node) refresh(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, n.keeper.RequestTimeout())
	defer cancel()
	n.reads.Add(1)
	n.hinted, n.urgent, n.readAt = false, false, time.Now()
	schema, before, term := n.keeper.Schema(), n.seen.Load(), n.presentTerm()
	switch { // an observer does not count a leader that is this node
	case term != nil:
		n.known = term.token
	case n.observed != nil && n.observed.Leader().Token > 0:
		n.known = n.observed.Leader().Token
	}
	var text []byte
	var batch pgx.Batch
	batch.Queue(in(schema, beatSQL), n.id, before.incarnation, n.ownPart(term), n.known)
	if s := n.session; term != nil && s != nil {
		ago, left := s.Renewal()
		batch.Queue(in(schema, renewSQL), n.cfg.Election, term.token, ago.Microseconds(), left.Microseconds())
	}
	batch.Queue(in(schema, stateSQL), claimName(n.cfg.Election), maxNodes, maxElections, n.id).
		QueryRow(func(row pgx.Row) error { return row.Scan(&text) })
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("refresh the node: %w", err)
	}
	s, err := parseState(text)
	if err != nil {
		return err
	}
	v := &view{State: s, at: n.readAt, incarnation: before.incarnation, session: before.session}
	if own, alive := v.row(n.id); !alive || own.Incarnation != v.incarnation {
		v.incarnation, n.session = 0, nil // its session was lost, or its row was deleted
	}
	n.newEvents = n.newEvents || v.Seq != before.Seq
	n.seen.Store(v)
	n.signalChange()
	return nil
}

// recordPending records the ends of this node's terms, and the losses of its sessions once it has registered again.
func (n *Node) recordPending(ctx context.Context, conn *pgx.Conn) error {
	schema := n.keeper.Schema()
	for now := time.Now(); ; {
		end, ok := n.nextEnd(now)
		if !ok {
			break
		}
		by, ended := n.id, end.ended
		if end.by != "" {
			by = end.by
		}
		err := n.exec(ctx, conn, in(schema, "SELECT {{schema}}.end_term($1, $2, $3, $4, $5, $6)"), n.cfg.Election, by,
			end.token, now.Sub(ended).Microseconds(), string(end.why), n.id)
		if err != nil {
			n.returnEnd(end)
			return fmt.Errorf("record the end of a term: %w", err)
		}
	}
	for n.session != nil {
		n.mu.Lock()
		if len(n.lost) == 0 || n.lost[0].id == n.session.ID() {
			n.mu.Unlock()
			break
		}
		lost := n.lost[0]
		n.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, n.keeper.RequestTimeout())
		_, err := recordEvent(limited, conn, schema, event.Event{ID: fmt.Sprintf("%s-%x", event.SessionLost, lost.id),
			Type: event.SessionLost, Time: lost.at, Node: n.id, Reason: lost.reason, Seconds: time.Since(lost.at).Seconds(),
			RecordedBy: n.id})
		cancel()
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.lost = n.lost[1:]
		n.mu.Unlock()
	}
	return nil
}

// nextEnd takes the next end of a term that is to be recorded now.
func (n *Node) nextEnd(now time.Time) (end termRecord, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, e := range n.ends {
		if !e.due.After(now) {
			n.ends = append(n.ends[:i:i], n.ends[i+1:]...)
			return e, true
		}
	}
	return termRecord{}, false
}

// returnEnd keeps the end of a term for later.
func (n *Node) returnEnd(end termRecord) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends = append([]termRecord{end}, n.ends...)
}

// doChores sends the requests that follow from the view.
func (n *Node) doChores(ctx context.Context, conn *pgx.Conn) error {
	v, schema := n.seen.Load(), n.keeper.Schema()
	for _, c := range decideChores(v, n.id, n.cfg.Election, n.presentTerm(), n.noted) {
		var err error
		switch c.kind {
		case choreRemove:
			err = n.exec(ctx, conn, in(schema, "SELECT {{schema}}.remove_node($1, $2, $3, $4)"), c.row.ID, c.row.Session,
				string(leaderelection.ReasonSessionLost), n.id)
		case choreBeginTerm:
			err = n.beginTerm(ctx, conn, c.term)
		case choreLeaderless:
			err = n.noteLeaderless(ctx, conn, c.term.token)
		}
		if err != nil {
			return fmt.Errorf("record a change of the cluster: %w", err)
		}
	}
	return nil
}

// beginTerm records that this node leads.
func (n *Node) beginTerm(ctx context.Context, conn *pgx.Conn, term termRecord) error {
	s := n.session
	if s == nil {
		return nil // the node registers first
	}
	ctx, cancel := context.WithTimeout(ctx, n.keeper.RequestTimeout())
	defer cancel()
	ago, left := s.Renewal()
	var former int64
	var leader string
	err := conn.QueryRow(ctx, in(n.keeper.Schema(),
		"SELECT former, former_leader FROM {{schema}}.begin_term($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
		n.cfg.Election, n.id, s.ID(), term.token, time.Since(term.acquired).Microseconds(), ago.Microseconds(),
		(ago+left).Microseconds(), n.host, n.cfg.HTTPAddress, string(leaderelection.ReasonSessionLost)).
		Scan(&former, &leader)
	if err != nil || former == 0 {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.ends) < maxPending {
		n.ends = append(n.ends, termRecord{token: former, by: leader, ended: term.acquired, due: time.Now().Add(reportDelay)})
	}
	return nil
}

// noteLeaderless records that there has been no leader since the term with that token.
func (n *Node) noteLeaderless(ctx context.Context, conn *pgx.Conn, last int64) error {
	ctx, cancel := context.WithTimeout(ctx, n.keeper.RequestTimeout())
	defer cancel()
	var recorded bool
	err := conn.QueryRow(ctx, in(n.keeper.Schema(), "SELECT {{schema}}.note_leaderless($1, $2, $3)"), n.cfg.Election,
		claimName(n.cfg.Election), n.id).Scan(&recorded)
	if recorded {
		n.noted = last
	}
	return err
}

// exec sends a statement, for as long as a request may take.
func (n *Node) exec(ctx context.Context, conn *pgx.Conn, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, n.keeper.RequestTimeout())
	defer cancel()
	_, err := conn.Exec(ctx, sql, args...)
	return err
}

// leave records the end of the last term, and deletes the node's row.
func (n *Node) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	conn, err := n.connect(ctx)
	if err == nil {
		n.reportAllEnds()
		_ = n.exec(ctx, conn, "SET lock_timeout = "+leaveLockTimeout) // the next request reports a broken connection
		err = n.recordPending(ctx, conn)
		if e := n.deleteRow(ctx, conn); e != nil {
			err = e
		}
	}
	if conn != nil {
		closeConn(conn)
	}
	n.mu.Lock()
	n.leaveErr = err
	n.mu.Unlock()
	if err == nil {
		n.log.Info("left the cluster in PostgreSQL", "node", n.id)
	}
}

// deleteRow deletes the node's row, also if the answer to its registration was lost.
func (n *Node) deleteRow(ctx context.Context, conn *pgx.Conn) error {
	return n.exec(ctx, conn, in(n.keeper.Schema(), "SELECT {{schema}}.leave_node(id, incarnation) FROM {{schema}}.node "+
		"WHERE id = $1 AND instance = $2"), n.id, n.instance)
}

// reportAllEnds makes all ends of terms due.
func (n *Node) reportAllEnds() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.ends {
		n.ends[i].due = time.Time{}
	}
}
