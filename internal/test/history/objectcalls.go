package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// ObjectCall is one call of an object that counts. The caller repeats it with the same request id until it is
// answered.
type ObjectCall struct {
	Process string  `json:"proc"`
	ID      int64   `json:"id"` // unique in that process
	Object  Subject `json:"object"`
	Adds    bool    `json:"adds,omitempty"`  // adds 1 to the object's count; otherwise only reads it
	Value   int64   `json:"value,omitempty"` // the count answered
	Call    Instant `json:"call"`
	Return  Instant `json:"return,omitempty"` // 0 if it was not answered
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

// ObjectCall records the start of a call to an object that counts. answered records the count that was
// returned.
func (r *Recorder) ObjectCall(object Subject, adds bool) (answered func(value int64)) {
	c := ObjectCall{Process: r.process, ID: r.ids.Add(1), Object: object, Adds: adds, Call: Now()}
	r.writeLines(recordLine{ObjectCall: &c})
	return func(value int64) {
		c := c
		c.Value, c.Return = value, Now()
		r.writeLines(recordLine{ObjectCall: &c})
	}
}

// checkObjectOrders finds the objects with calls that cannot have taken place one by one, each between its call and
// its answer. While the limits exempt a second activation, the older one may answer a read from its memory, so
// such reads are left out. Nothing excuses an increment, because the store refuses epochs older than the
// newest.
func checkObjectOrders(h History, exempt map[string]time.Duration, timeout time.Duration) []Finding {
	of := map[Subject][]ObjectCall{}
	for _, c := range h.Calls {
		if c.Adds || c.Return != 0 && !c.mayBeDoubled(h.Marks, exempt) { // an unanswered read shows nothing
			of[c.Object] = append(of[c.Object], c)
		}
	}
	var out []Finding
	for object, calls := range of {
		slices.SortFunc(calls, func(a, b ObjectCall) int { return cmp.Compare(a.Call, b.Call) })
		out = append(out, checkObjectOrder(object, calls, timeout)...)
	}
	return out
}

// mayBeDoubled reports whether there may have been two activations during a call.
func (c ObjectCall) mayBeDoubled(marks []Mark, exempt map[string]time.Duration) bool {
	return slices.ContainsFunc(marks, func(m Mark) bool {
		bound, named := exempt[m.Name]
		return named && c.Object.isExcusedBy(m.Name) && m.From <= c.Return && c.Call <= max(m.From, m.To).Add(bound)
	})
}

func checkObjectOrder(object Subject, calls []ObjectCall, timeout time.Duration) []Finding {
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
	if i, ok := firstMisfit(info, len(calls)); ok {
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

// firstMisfit returns the first of n operations that the longest partial linear order leaves out.
func firstMisfit(info porcupine.LinearizationInfo, n int) (at int, ok bool) {
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
