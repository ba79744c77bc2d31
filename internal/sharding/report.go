package sharding

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/goverse/goverse/cluster/shard"
)

// ErrBadReport is wrapped by the errors of [DecodeReport].
var ErrBadReport = errors.New("unreadable report of released shards")

// Report is what a member says of the shards that it had: it has acted on the
// map of Generation, and of all that this map, or any before it, took from it
// only Busy is still in use. Of a member's reports only the newest counts.
type Report struct {
	// Incarnation is the member's own. The report of another one proves nothing.
	Incarnation int64
	Generation  int64
	// Busy ascends.
	Busy []int
}

// Done reports whether the shard's owner need no longer wait: From's incarnation
// is gone, or From's report names that very incarnation, has come to Since, and
// does not list the shard as busy. The zero Report stands for none. Whether From
// lives is to be asked of a snapshot no older than the map: in an older one From
// may not be there yet.
//
// A move that is done stays done while a map has it: who is gone does not come
// back, and who has released a shard gets it back by another map only.
func (m Move) Done(fromLives bool, r Report) bool {
	return !fromLives || r.Incarnation == m.From.Incarnation && r.Generation >= m.Since && !r.busy(m.Shard)
}

// Equal reports whether both say the same.
func (r Report) Equal(o Report) bool {
	return r.Incarnation == o.Incarnation && r.Generation == o.Generation && slices.Equal(r.Busy, o.Busy)
}

func (r Report) busy(shard int) bool {
	_, found := slices.BinarySearch(r.Busy, shard)
	return found
}

type wireReport struct {
	Incarnation int64  `json:"incarnation"`
	Generation  int64  `json:"generation"`
	Busy        string `json:"busy"`
}

// Encode is the report as it is stored, one JSON value. Equal reports have equal
// bytes.
func (r Report) Encode() []byte {
	value, err := json.Marshal(wireReport{r.Incarnation, r.Generation, FormatRanges(r.Busy)})
	if err != nil {
		panic(fmt.Sprintf("sharding: a report of numbers did not encode: %v", err))
	}
	return value
}

// DecodeReport reads what [Report.Encode] wrote, and checks it: errors match
// [ErrBadReport]. Busy ascends. It may list shards that a map has not.
func DecodeReport(value []byte) (Report, error) {
	var w wireReport
	if err := json.Unmarshal(value, &w); err != nil {
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
