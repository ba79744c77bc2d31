package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// ObjectCall is one call of an object that counts, until it was answered; its caller repeated it, by the same
// request id, until then.
type ObjectCall struct {
	Process string  `json:"proc"`
	ID      int64   `json:"id"` // in that process
	Object  Subject `json:"object"`
	Adds    bool    `json:"adds,omitempty"`  // 1 to what was counted; else it reads that
	Value   int64   `json:"value,omitempty"` // what was counted then, as it was answered
	Call    Instant `json:"call"`
	Return  Instant `json:"return,omitempty"` // 0: it was not answered
}

func (c ObjectCall) String() string {
	what := "read"
	if c.Adds {
		what = "increment"
	}
	if c.Return == 0 {
		return what + ", not answered"
	}
	return fmt.Sprintf("%s, answered %d", what, c.Value)
}

// ObjectCall records that a call is made, of an object that counts; answered records what it has counted.
func (r *Recorder) ObjectCall(object Subject, adds bool) (answered func(value int64)) {
	c := ObjectCall{Process: r.process, ID: r.ids.Add(1), Object: object, Adds: adds, Call: Now()}
	r.write(line{ObjectCall: &c})
	return func(value int64) {
		c := c
		c.Value, c.Return = value, Now()
		r.write(line{ObjectCall: &c})
	}
}

// objectOrders finds the objects whose calls can not have taken place one by one, each between its call and its
// answer. While there may be two activations, as the limits exempt it, a read may be answered from the memory of
// the older one, and is left out; nothing excuses an increment, for the store has the newer one's epoch.
func objectOrders(h History, exempt map[string]time.Duration, timeout time.Duration) []Finding {
	of := map[Subject][]ObjectCall{}
	for _, c := range h.Calls {
		if c.Adds || c.Return != 0 && !c.excused(h.Marks, exempt) { // a read that was not answered says nothing
			of[c.Object] = append(of[c.Object], c)
		}
	}
	var out []Finding
	for object, calls := range of {
		slices.SortFunc(calls, func(a, b ObjectCall) int { return cmp.Compare(a.Call, b.Call) })
		out = append(out, objectOrder(object, calls, timeout)...)
	}
	return out
}

// excused reports whether there may have been two activations during a call.
func (c ObjectCall) excused(marks []Mark, exempt map[string]time.Duration) bool {
	return slices.ContainsFunc(marks, func(m Mark) bool {
		bound, named := exempt[m.Name]
		return named && c.Object.excused(m.Name) && m.From <= c.Return && c.Call <= max(m.From, m.To).Add(bound)
	})
}

func objectOrder(object Subject, calls []ObjectCall, timeout time.Duration) []Finding {
	all := make([]porcupine.Operation, len(calls))
	last := calls[0].Call
	for i, c := range calls {
		end := c.Return
		if end == 0 {
			end = forever
		}
		all[i] = porcupine.Operation{Input: c, Call: int64(c.Call), Return: int64(end)}
		last = max(last, c.Call, c.Return)
	}
	f := Finding{Kind: NotLinearizable, Subject: object, From: calls[0].Call, To: last}
	result, info := porcupine.CheckOperationsVerbose(countingModel, all, timeout)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		f.Kind = Undecided
		f.Text = fmt.Sprintf("%v: no linear order of %d calls was found or excluded within %v", object, len(calls), timeout)
		return []Finding{f}
	}
	f.Text = fmt.Sprintf("%v: not linearizable", object)
	if i, ok := misfit(info, len(calls)); ok {
		f.From, f.To = calls[i].Call, max(calls[i].Call, calls[i].Return)
		f.Text += fmt.Sprintf(": %v does not fit", calls[i])
	}
	return []Finding{f}
}

// countingModel is an object that counts.
var countingModel = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(at, input, _ any) (bool, any) {
		n, c := at.(int64), input.(ObjectCall)
		if c.Adds {
			n++
		}
		return c.Return == 0 || c.Value == n, n
	},
}

// misfit is the first of n operations that the longest beginning of a linear order leaves out.
func misfit(info porcupine.LinearizationInfo, n int) (at int, ok bool) {
	placed := map[int]bool{}
	for _, ids := range info.PartialLinearizations()[0] {
		if len(ids) > len(placed) {
			clear(placed)
			for _, id := range ids {
				placed[id] = true
			}
		}
	}
	for i := range n {
		if !placed[i] {
			return i, true
		}
	}
	return 0, false
}
