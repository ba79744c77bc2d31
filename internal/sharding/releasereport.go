package sharding

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/state/format"
)

// ErrBadReport is wrapped by the errors of [DecodeReport].
var ErrBadReport = errors.New("unreadable report of released shards")

// Report is a member's statement about the shards that were moved away from it: it has acted on the map of
// Generation, and of all shards that this map or any earlier one took from it, only those in Busy are still in
// use. Only a member's newest report counts.
type Report struct {
	// Incarnation is the member's own. A report of another incarnation proves nothing.
	Incarnation int64
	Generation  int64
	// Busy is in ascending order.
	Busy []int
}

// Done reports whether the shard's owner need not wait any longer. That is so if From's incarnation is gone, or
// if r is a report of that incarnation, has reached Since, and does not list the shard as busy. The zero Report
// stands for none. fromLives must come from a snapshot that is no older than the map; in an older one From may
// not be registered yet.
//
// A move that is done stays done while a map contains it. An incarnation that is gone does not return, and a
// shard that was released returns to its former owner only by another map.
func (m Move) Done(fromLives bool, r Report) bool {
	return !fromLives || r.Incarnation == m.From.Incarnation && r.Generation >= m.Since && !r.isBusy(m.Shard)
}

// Equal reports whether both reports have the same content.
func (r Report) Equal(o Report) bool {
	return r.Incarnation == o.Incarnation && r.Generation == o.Generation && slices.Equal(r.Busy, o.Busy)
}

func (r Report) isBusy(shard int) bool {
	_, found := slices.BinarySearch(r.Busy, shard)
	return found
}

type wireReport struct {
	Incarnation int64  `json:"incarnation"`
	Generation  int64  `json:"generation"`
	Busy        string `json:"busy"`
}

// Encode returns the report as it is stored, one JSON value. Equal reports have equal bytes.
func (r Report) Encode() []byte {
	value, err := format.Encode(wireReport{r.Incarnation, r.Generation, FormatRanges(r.Busy)}, nil)
	if err != nil {
		panic(fmt.Sprintf("sharding: a report of numbers did not encode: %v", err))
	}
	return value
}

// DecodeReport parses the result of [Report.Encode] and validates it. Errors match [ErrBadReport]. Busy is in
// ascending order. It may list shards that a map does not have.
func DecodeReport(value []byte) (Report, error) {
	var w wireReport
	if err := format.DecodeKnown("the report", value, &w); err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrBadReport, err)
	}
	if w.Incarnation < 1 || w.Generation < 1 {
		return Report{}, fmt.Errorf("%w: incarnation %d or generation %d is not positive",
			ErrBadReport, w.Incarnation, w.Generation)
	}
	r := Report{Incarnation: w.Incarnation, Generation: w.Generation}
	if err := parseRanges(w.Busy, shard.MaxCount, func(shard int) error {
		r.Busy = append(r.Busy, shard)
		return nil
	}); err != nil {
		return Report{}, fmt.Errorf("%w: busy: %w", ErrBadReport, err)
	}
	return r, nil
}
