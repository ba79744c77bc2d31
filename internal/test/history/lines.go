package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrBadLine is returned for input that is not a recording.
var ErrBadLine = errors.New("not a line of a recorded history; record with NewRecorder, one file a process")

// recordLine is one line of a recording; exactly one field is set. A line replaces an earlier one about the same run,
// mark, operation or attempt. Each of these can therefore be written as soon as it begins and again as it
// continues.
type recordLine struct {
	Process *Process     `json:"process,omitempty"`
	Run     *Run         `json:"run,omitempty"`
	Mark    *Mark        `json:"mark,omitempty"`
	Op      *Op          `json:"op,omitempty"`
	Entry   *Entry       `json:"entry,omitempty"`
	Gap     *Gap         `json:"gap,omitempty"`
	Attempt *Attempt     `json:"attempt,omitempty"`
	Effect  *LedgerEntry `json:"effect,omitempty"`

	ObjectCall *ObjectCall `json:"call,omitempty"`
}

// Read reads the output of one recorder. An unfinished last line, which a crash leaves, is ignored.
func Read(r io.Reader) (History, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	b := historyBuilder{runs: map[runKey]int{}, marks: map[opKey]int{}, ops: map[opKey]int{}, attempts: map[opKey]int{},
		calls: map[opKey]int{}}
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return b.history, nil
		}
		if err != nil {
			return History{}, fmt.Errorf("read a history: %w", err)
		}
		var l recordLine
		if err := json.Unmarshal(text, &l); err != nil {
			return History{}, fmt.Errorf("line %d: %w: %w", n, ErrBadLine, err)
		}
		if !b.addLine(l) {
			return History{}, fmt.Errorf("line %d: %w", n, ErrBadLine)
		}
	}
}

// ReadFiles reads and merges the files of several processes.
func ReadFiles(paths ...string) (History, error) {
	var all []History
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return History{}, err
		}
		h, err := Read(f)
		_ = f.Close() // it was only read
		if err != nil {
			return History{}, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, h)
	}
	return Merge(all...), nil
}

type runKey struct {
	life    NodeLife
	subject Subject
	first   Instant
}

type opKey struct {
	process string
	id      int64
}

// historyBuilder assembles a history from lines. Each map holds the indexes of records in the history's slices.
type historyBuilder struct {
	history  History
	runs     map[runKey]int
	marks    map[opKey]int
	ops      map[opKey]int
	attempts map[opKey]int
	calls    map[opKey]int
}

func (b *historyBuilder) addLine(l recordLine) bool {
	h := &b.history
	switch {
	case l.Process != nil:
		h.Processes = append(h.Processes, *l.Process)
	case l.Run != nil:
		replaceRecord(&h.Runs, b.runs, runKey{l.Run.NodeLife, l.Run.Subject, l.Run.First.Before}, *l.Run)
	case l.Mark != nil:
		replaceRecord(&h.Marks, b.marks, opKey{l.Mark.Process, l.Mark.ID}, *l.Mark)
	case l.Op != nil:
		replaceRecord(&h.Ops, b.ops, opKey{l.Op.Process, l.Op.ID}, *l.Op)
	case l.Entry != nil:
		h.Entries = append(h.Entries, *l.Entry)
	case l.Gap != nil:
		h.Gaps = append(h.Gaps, *l.Gap)
	case l.Attempt != nil:
		replaceRecord(&h.Attempts, b.attempts, opKey{l.Attempt.Process, l.Attempt.ID}, *l.Attempt)
	case l.Effect != nil:
		h.Effects = append(h.Effects, *l.Effect)
	case l.ObjectCall != nil:
		replaceRecord(&h.Calls, b.calls, opKey{l.ObjectCall.Process, l.ObjectCall.ID}, *l.ObjectCall)
	default:
		return false
	}
	return true
}

func replaceRecord[K comparable, V any](all *[]V, at map[K]int, k K, v V) {
	if i, known := at[k]; known {
		(*all)[i] = v
		return
	}
	at[k] = len(*all)
	*all = append(*all, v)
}
