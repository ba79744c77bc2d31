package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// lockStep takes a lock, or ends a hold of it by release or loss.
type lockStep struct {
	term     Term
	acquires bool
}

// lockState is the state of a lock: its present holders, and the greatest tokens so far.
type lockState struct {
	tokens            string // of the holders, such as " 5 7 "
	shared            bool
	newest, exclusive int64
}

// checkLockOrder reports whether the holds of a lock can have begun and ended one by one, each at an instant that
// its samples allow. A hold begins between its request and the first sample that certainly found it held. It
// ends between the last such sample and the one that found it over. A holder that lost the lock out of band may
// have lost it as soon as the intervention began.
func checkLockOrder(c subjectClaims, marks []Mark, exempt map[string]time.Duration, timeout time.Duration) []Finding {
	var ops []porcupine.Operation
	for _, t := range c.terms {
		p := t.possibleWindow()
		ended := max(p.Before, min(t.Ended(), t.earliestExemptEnd(marks, exempt)))
		ops = append(ops,
			porcupine.Operation{Input: lockStep{t, true}, Call: int64(p.Before), Return: int64(t.Begun())},
			porcupine.Operation{Input: lockStep{t, false}, Call: int64(ended), Return: int64(max(ended, p.After))})
	}
	if len(ops) == 0 {
		return nil
	}
	result, info := porcupine.CheckOperationsVerbose(lockModel, ops, timeout)
	f := Finding{Subject: c.subject, From: c.terms[0].Begun(), To: c.terms[len(c.terms)-1].Ended()}
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		f.Kind, f.Text = Undecided,
			fmt.Sprintf("%v: no linear order of %d holds was found or excluded within %v", c.subject, len(c.terms), timeout)
		return []Finding{f}
	}
	f.Kind, f.Text = NotLinearizable, fmt.Sprintf("%v: not linearizable", c.subject)
	var longest []int
	for _, ids := range info.PartialLinearizations()[0] {
		if len(ids) > len(longest) {
			longest = ids
		}
	}
	for i, op := range ops {
		if !slices.Contains(longest, i) {
			t := op.Input.(lockStep).term
			f.From, f.To, f.Terms = t.First.Before, t.Last.After, []Term{t}
			f.Text += fmt.Sprintf(": %v does not fit", t)
			break
		}
	}
	return []Finding{f}
}

// earliestExemptEnd returns the earliest instant at which an exempting mark may have ended the term.
func (t Term) earliestExemptEnd(marks []Mark, exempt map[string]time.Duration) Instant {
	at := forever
	for _, m := range marks {
		if _, named := exempt[m.Name]; named && t.Subject.isExcusedBy(m.Name) && m.concerns(t.Node) &&
			max(m.From, m.To) >= t.notBefore {
			at = min(at, m.From)
		}
	}
	return at
}

// lockModel is a lock with either one holder or several that share it. The token of an exclusive holder must be
// greater than all before. The token of a shared holder must be greater than those of all exclusive holders
// before.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(at, input, _ any) (bool, any) {
		x, s := at.(lockState), input.(lockStep)
		token := fmt.Sprint(" ", s.term.Token, " ")
		switch {
		case !s.acquires && !strings.Contains(x.tokens, token):
			return false, x
		case !s.acquires:
			x.tokens = strings.Replace(x.tokens, token, "", 1)
			return true, x
		case s.term.Shared && (x.tokens != "" && !x.shared || s.term.Token <= x.exclusive),
			!s.term.Shared && (x.tokens != "" || s.term.Token <= x.newest):
			return false, x
		}
		x.tokens, x.shared, x.newest = x.tokens+token, s.term.Shared, max(x.newest, s.term.Token)
		if !s.term.Shared {
			x.exclusive = s.term.Token
		}
		return true, x
	},
}
