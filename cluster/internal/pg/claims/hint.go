package claims

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// recordNotification records that a claim may have been granted. Any program that may connect to the database can send
// such a notification, so the server is asked.
func (s *Session) recordNotification(payload string) {
	seq, err := strconv.ParseInt(payload, 10, 64)
	if err != nil {
		return
	}
	s.hint(seq)
}

// hint makes the watcher ask whether claims have been granted.
func (s *Session) hint(seqs ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seq := range seqs {
		if c := s.claims[seq]; c != nil && c.phase <= phaseWaiting {
			s.hinted[seq] = true
			s.hints.Send()
		}
	}
}

// takeHints returns the numbers of some claims that may have been granted.
func (s *Session) takeHints() (seqs []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for seq := range s.hinted {
		if len(seqs) == maxAsked {
			s.hints.Send()
			break
		}
		delete(s.hinted, seq)
		if c := s.claims[seq]; c != nil && c.phase <= phaseWaiting {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

// readHints asks whether claims have been granted.
func (w *watcher) readHints() (err error) {
	seqs := w.s.takeHints()
	if len(seqs) == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			w.s.hint(seqs...) // for the next connection
		}
	}()
	ctx, cancel := context.WithTimeout(w.s.ctx, w.s.k.cfg.requestTimeout())
	defer cancel()
	rows, err := w.conn.Query(ctx, w.s.k.sql.own, w.s.id, seqs)
	if err != nil {
		return err
	}
	tokens := map[int64]int64{}
	var seq, token int64
	_, err = pgx.ForEachRow(rows, []any{&seq, &token}, func() error { tokens[seq] = token; return nil })
	if err != nil {
		return err
	}
	if w.s.recordGrants(tokens) == 0 {
		w.inVain = time.Now()
	}
	return nil
}
