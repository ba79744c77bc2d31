package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// segmentOps is how many operations are searched at once, if they can be cut.
	segmentOps = 256
	// searchTimeout bounds the search of one segment.
	searchTimeout = 20 * time.Second
)

// seen is an operation that had an effect or was answered, with bounds on when it
// took place.
type seen struct {
	op        Op
	revision  int64
	call, ret Instant
}

// linear reports whether the operations can have taken place one by one, each between
// its call and its return, as operations of a fenced register.
//
// The search is porcupine's, which takes the more the more operations are open at
// once. Three things keep that small, and lose nothing:
//
//   - A refused write changes nothing and may be refused at any time (the term ends
//     before the next one writes), so it is left out. So is a write of unknown outcome
//     that nobody ever saw.
//   - One that was seen was carried out before it, or anything later, was seen: it is
//     not open forever.
//   - Where no operation is open the history is cut. etcd's revisions only grow, and
//     say exactly which state stands at the cut: the newest seen before it.
//
// So 400,000 operations of three clients in ten minutes take two seconds; many clients
// that read at once can still make the search of a wrong history hopeless, and it is
// given up then.
func (r *register) linear(order []stored, timeout time.Duration) []Finding {
	var out []Finding
	var start state
	for rest := r.effective(order); len(rest) > 0; {
		n := segment(rest)
		part := rest[:n]
		rest = rest[n:]
		switch porcupine.CheckOperationsTimeout(model(start, true), operations(part), timeout) {
		case porcupine.Unknown:
			return append(out, r.undecided(part, timeout))
		case porcupine.Illegal:
			out = append(out, r.explain(start, part, timeout)...)
		}
		for _, s := range part {
			start = start.after(s)
		}
	}
	return out
}

// effective are the operations to search, by call.
func (r *register) effective(order []stored) []seen {
	at := map[string]stored{} // by value
	for _, s := range order {
		at[s.Value] = s
	}
	var answered, open []seen
	for _, op := range r.ops {
		s := seen{op: op, revision: op.Revision, call: op.Call, ret: op.Return}
		if op.Outcome == OutcomeAccepted {
			answered = append(answered, s)
		} else if stored, known := at[op.Value]; op.Write && known {
			s.revision, s.ret = stored.Revision, stored.At
			open = append(open, s)
		}
	}
	// until[i] is when the first of the i answers with the greatest revisions was there.
	slices.SortFunc(answered, func(a, b seen) int { return cmp.Compare(b.revision, a.revision) })
	until := []Instant{forever}
	for _, s := range answered {
		until = append(until, min(until[len(until)-1], s.ret))
	}
	for i, s := range open {
		n, _ := slices.BinarySearchFunc(answered, s.revision, func(a seen, revision int64) int {
			if a.revision >= revision {
				return -1
			}
			return 1
		})
		open[i].ret = max(s.call, min(s.ret, until[n]))
	}
	out := append(answered, open...)
	slices.SortStableFunc(out, func(a, b seen) int { return cmp.Compare(a.call, b.call) })
	return out
}

// segment is how many of the operations are searched next: up to the first cut after
// segmentOps, or all.
func segment(ops []seen) int {
	last := ops[0].ret
	for i, s := range ops {
		if i >= segmentOps && s.call > last {
			return i
		}
		last = max(last, s.ret)
	}
	return len(ops)
}

func operations(ops []seen) []porcupine.Operation {
	out := make([]porcupine.Operation, len(ops))
	for i, s := range ops {
		out[i] = porcupine.Operation{Input: s, Call: int64(s.call), Return: int64(s.ret)}
	}
	return out
}

// state is a register's: what stands in it, and the greatest token that wrote it.
type state struct {
	revision, newest int64
	value            string
}

// after is the state that s leaves or was answered, whichever is newer.
func (x state) after(s seen) state {
	if s.revision > x.revision {
		x.revision, x.value = s.revision, s.op.Value
	}
	x.newest = max(x.newest, s.op.Token)
	return x
}

// model is a register that starts in a state, whose revisions grow, and which, if
// fenced, accepts no write with a smaller token than the greatest so far. An increment takes
// place where stands what it has read.
func model(start state, fenced bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return start },
		Step: func(at, input, _ any) (bool, any) {
			x, s := at.(state), input.(seen)
			if !s.op.Write {
				return s.revision == x.revision && s.op.Value == x.value, x
			}
			return s.revision > x.revision && (!fenced || s.op.Token >= x.newest) && (!s.op.Counts ||
				s.op.Base == x.value), x.after(s)
		},
	}
}

// explain says what is wrong with operations that have no linear order: the first that
// the longest beginning of one leaves out. What only the fence forbids is a stale
// write, and found as that.
func (r *register) explain(start state, part []seen, timeout time.Duration) []Finding {
	result, info := porcupine.CheckOperationsVerbose(model(start, false), operations(part), timeout)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return []Finding{r.undecided(part, timeout)}
	}
	f := Finding{Kind: NotLinearizable, From: part[0].call, To: part[len(part)-1].ret,
		Text: fmt.Sprintf("register %s: not linearizable", r.key)}
	if i, ok := misfit(info, len(part)); ok {
		s := part[i]
		f.From, f.To, f.Ops = s.call, s.ret, []Op{s.op}
		f.Text += fmt.Sprintf(": %v does not fit", s.op)
	}
	return []Finding{f}
}

func (r *register) undecided(part []seen, timeout time.Duration) Finding {
	return Finding{Kind: Undecided, From: part[0].call, To: part[len(part)-1].ret, Text: fmt.Sprintf(
		"register %s: no linear order of %d operations was found or excluded within %v", r.key, len(part), timeout)}
}
