package simulation

import "github.com/goverse/goverse/internal/ownership"

// phase is how far a process has come with a shard: consensus's phase.
type phase int

const (
	idle phase = iota
	acquiring
	serving
	releasing
)

// slot stands for consensus's: one shard in one process.
type slot struct {
	phase   phase
	dropped bool // while acquiring: it is to be released right after
	epoch   int64
	s       *session // it was acquired on, and in which period
	period  int
}

// held is slot.held.
func (x *slot) held(s *session, period int) int64 {
	if x.epoch != 0 && (x.s != s || x.period != period) {
		return ownership.Lapsed
	}
	return x.epoch
}

// counts reports whether what is done in the shard counts: its session's period is valid.
func (x *slot) counts() bool { return x.epoch != 0 && x.s.validSince(x.period) }

// begin is slot.begin.
func (x *slot) begin(g ownership.Grant, s *session, period int, ask bool) {
	*x = slot{phase: serving, epoch: g.Epoch, s: s, period: period}
	if ask {
		x.phase = acquiring
	}
}

// acquired is slot.acquired.
func (x *slot) acquired() (drop bool) {
	x.phase = serving
	if x.dropped {
		x.phase = releasing
	}
	return x.dropped
}

// drop is slot.drop: it reports whether the caller releases the shard.
func (x *slot) drop() bool {
	switch x.phase {
	case acquiring:
		x.dropped = true
	case serving:
		x.phase = releasing
		return true
	}
	return false
}
