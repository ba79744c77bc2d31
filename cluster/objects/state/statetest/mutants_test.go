package statetest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/goverse/goverse/cluster/objects/state"
)

// mutants lists known mistakes of stores, each with the checks that must find it.
var mutants = map[string]struct {
	open  func() *mutant
	finds []string
}{
	"nothing (the memory is sound)": {func() *mutant { return &mutant{Memory: &state.Memory{}} }, nil},
	"does not compare epochs": {func() *mutant {
		return rows(func(t *table, r *row, w state.Write) error {
			if r == nil || r.Version != w.Version {
				return state.ErrConflict
			}
			return nil
		})
	}, []string{"a smaller epoch is refused", "a smaller epoch is refused its first save"}},
	"does not compare versions": {func() *mutant {
		return rows(func(t *table, r *row, w state.Write) error {
			if r != nil && r.epoch > w.Epoch {
				return state.ErrFenced
			}
			return nil
		})
	}, []string{"a version is replaced once", "one of many saves wins", "a claim ends the versions before it",
		"there is nothing at first"}},
	"reads, then writes": {func() *mutant {
		return rows(func(t *table, r *row, w state.Write) error {
			err := sound(t, r, w)
			t.mu.Unlock()
			runtime.Gosched() // the others read in the meantime, as over a network
			t.mu.Lock()
			return err
		})
	}, []string{"one of many saves wins"}},
	"claims no object without a state": {func() *mutant {
		m := rows(func(t *table, r *row, w state.Write) error {
			if r == nil && w.Version == 0 {
				return nil
			}
			return sound(t, r, w)
		})
		m.load = func(m *mutant, ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
			return m.rows.load(ref, epoch, func(r *row) bool { return r != nil })
		}
		return m
	}, []string{"a smaller epoch is refused its first save", "there is nothing at first"}},
	"forgets the claim of what is deleted": {func() *mutant {
		m := rows(sound)
		m.save = func(m *mutant, ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
			v, err := m.rows.save(ref, w, sound)
			if err == nil && w.Delete {
				m.rows.drop(ref)
			}
			return v, err
		}
		return m
	}, []string{"a deleted object stays fenced", "what is deleted is gone"}},
	"lets a claim lower the epoch": {func() *mutant {
		m := rows(sound)
		m.load = func(m *mutant, ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
			return m.rows.claim(ref, epoch), nil
		}
		return m
	}, []string{"a smaller epoch cannot claim"}},
	"keeps a version over a claim": {func() *mutant {
		m := rows(sound)
		m.load = func(m *mutant, ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
			return m.rows.keep(ref, epoch)
		}
		return m
	}, []string{"a claim ends the versions before it", "no version comes again"}},
	"keeps epochs as floats": {func() *mutant {
		m := &mutant{Memory: &state.Memory{}}
		m.load = func(m *mutant, ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
			return m.Memory.Load(ctx, ref, int64(min(float64(epoch), math.MaxInt64/2)))
		}
		return m
	}, []string{"a smaller epoch cannot claim"}},
	"ignores contexts": {func() *mutant {
		m := &mutant{Memory: &state.Memory{}, unchecked: true}
		m.load = func(m *mutant, ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
			return m.Memory.Load(context.WithoutCancel(ctx), ref, epoch)
		}
		m.save = func(m *mutant, ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
			return m.Memory.Save(context.WithoutCancel(ctx), ref, w)
		}
		return m
	}, []string{"a context that ended is honoured"}},
	"joins names": {func() *mutant {
		join := func(ref state.Ref) state.Ref {
			if ref.Validate() != nil {
				return ref
			}
			joined := ref.Service + "/" + ref.Key
			return state.Ref{Service: "all", Key: joined[:min(1024, len(joined))]}
		}
		m := &mutant{Memory: &state.Memory{}}
		m.load = func(m *mutant, ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
			return m.Memory.Load(ctx, join(ref), epoch)
		}
		m.save = func(m *mutant, ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
			return m.Memory.Save(ctx, join(ref), w)
		}
		m.reply = func(m *mutant, ctx context.Context, ref state.Ref, id string) ([]byte, bool, error) {
			return m.Memory.Reply(ctx, join(ref), id)
		}
		return m
	}, []string{"objects of any name"}},
	"keeps text that ends at a zero byte": {func() *mutant {
		m := &mutant{Memory: &state.Memory{}}
		m.save = func(m *mutant, ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
			value, _, _ := strings.Cut(string(w.Value), "\x00")
			w.Value = []byte(value)
			return m.Memory.Save(ctx, ref, w)
		}
		return m
	}, []string{"what is saved is loaded"}},
	"takes an empty state for none": {func() *mutant {
		m := &mutant{Memory: &state.Memory{}}
		m.load = func(m *mutant, ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
			r, err := m.Memory.Load(ctx, ref, epoch)
			r.Found = len(r.Value) > 0
			return r, err
		}
		return m
	}, []string{"what is saved is loaded"}},
	"stores the reply first": {func() *mutant {
		m := rows(sound)
		m.save = func(m *mutant, ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
			m.rows.reply(ref, w)
			return m.rows.save(ref, w, sound)
		}
		return m
	}, []string{"what is refused changes nothing", "calls that are repeated take effect once"}},
	"stores no replies": {func() *mutant {
		m := &mutant{Memory: &state.Memory{}}
		m.save = func(m *mutant, ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
			w.RequestID = ""
			return m.Memory.Save(ctx, ref, w)
		}
		return m
	}, []string{"replies are stored with the state", "calls that are repeated take effect once"}},
	"keeps one reply for all objects": {func() *mutant {
		m := rows(sound)
		m.reply = func(m *mutant, ctx context.Context, ref state.Ref, id string) ([]byte, bool, error) {
			return m.rows.anyReply(id)
		}
		return m
	}, []string{"replies are stored with the state", "objects of any name"}},
	"shares slices": {func() *mutant {
		m := rows(sound)
		m.rows.shares = true
		return m
	}, []string{"slices are not shared"}},
}

// table is a store that lets a mutant replace every step.
type table struct {
	mu      sync.Mutex
	shares  bool // clones no slices
	last    int64
	rows    map[state.Ref]*row
	replies map[string][]byte
}

type row struct {
	state.Record
	epoch int64
}

// rows returns a mutant over a table, with a comparison of its own.
func rows(compare func(*table, *row, state.Write) error) *mutant {
	return &mutant{
		rows: &table{rows: map[state.Ref]*row{}, replies: map[string][]byte{}},
		load: func(m *mutant, ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
			return m.rows.load(ref, epoch, func(*row) bool { return true })
		},
		save: func(m *mutant, ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
			return m.rows.save(ref, w, compare)
		},
		reply: func(m *mutant, ctx context.Context, ref state.Ref, id string) ([]byte, bool, error) {
			m.rows.mu.Lock()
			defer m.rows.mu.Unlock()
			b, ok := m.rows.replies[key(ref, id)]
			return m.rows.copy(b), ok, nil
		},
	}
}

func sound(_ *table, r *row, w state.Write) error {
	switch {
	case r != nil && r.epoch > w.Epoch:
		return state.ErrFenced
	case r == nil || r.Version != w.Version:
		return state.ErrConflict
	}
	return nil
}

func (t *table) copy(b []byte) []byte {
	if t.shares {
		return b
	}
	return slices.Clone(b)
}

func key(ref state.Ref, id string) string { return fmt.Sprintf("%q %q", ref, id) }

func (t *table) load(ref state.Ref, epoch int64, store func(*row) bool) (state.Record, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[ref]
	switch {
	case r != nil && r.epoch > epoch:
		return state.Record{}, state.ErrFenced
	case !store(r):
		return state.Record{}, nil
	case r == nil:
		r = &row{}
	}
	t.last++
	r.Version, r.epoch = t.last, epoch
	t.rows[ref] = r
	return t.read(r), nil
}

func (t *table) read(r *row) state.Record {
	read := r.Record
	read.Value = t.copy(r.Value)
	return read
}

func (t *table) claim(ref state.Ref, epoch int64) state.Record {
	t.mu.Lock()
	if r := t.rows[ref]; r != nil {
		r.epoch = 0
	}
	t.mu.Unlock()
	r, _ := t.load(ref, epoch, func(*row) bool { return true })
	return r
}

func (t *table) keep(ref state.Ref, epoch int64) (state.Record, error) {
	t.mu.Lock()
	r := t.rows[ref]
	if r != nil && r.epoch <= epoch {
		defer t.mu.Unlock()
		r.epoch = epoch
		return t.read(r), nil
	}
	t.mu.Unlock()
	return t.load(ref, epoch, func(*row) bool { return true })
}

func (t *table) save(ref state.Ref, w state.Write, compare func(*table, *row, state.Write) error) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := compare(t, t.rows[ref], w); err != nil {
		return 0, err
	}
	t.last++
	r := &row{state.Record{Version: t.last, Found: !w.Delete}, w.Epoch}
	if !w.Delete {
		r.Value = t.copy(w.Value)
	}
	t.rows[ref] = r
	if w.RequestID != "" {
		t.replies[key(ref, w.RequestID)] = t.copy(w.Reply)
	}
	return t.last, nil
}

func (t *table) drop(ref state.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, ref)
}

func (t *table) reply(ref state.Ref, w state.Write) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.RequestID != "" {
		t.replies[key(ref, w.RequestID)] = t.copy(w.Reply)
	}
}

// anyReply returns a reply to the id, of any object.
func (t *table) anyReply(id string) ([]byte, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(t.replies)) {
		if strings.HasSuffix(k, fmt.Sprintf(" %q", id)) {
			return t.copy(t.replies[k]), true, nil
		}
	}
	return nil, false, nil
}
