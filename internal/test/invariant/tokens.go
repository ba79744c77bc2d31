// Package invariant holds checks of promises as values, for the checkers of recorded histories and of schedules
// alike.
package invariant

// Tokens holds the greatest token of a subject so far, which the next one must exceed, with its holder. Holders that
// share the subject are not compared with each other. The zero value is ready.
type Tokens[H any] struct{ every, exclusive granted[H] }

type granted[H any] struct {
	token  int64
	holder H
}

// Greatest returns the greatest token so far and its holder, for a holder that shares the subject or not; the zero
// values if there is none.
func (t *Tokens[H]) Greatest(shared bool) (token int64, holder H) {
	if shared {
		return t.exclusive.token, t.exclusive.holder
	}
	return t.every.token, t.every.holder
}

// Add records a token.
func (t *Tokens[H]) Add(token int64, shared bool, holder H) {
	if token >= t.every.token {
		t.every = granted[H]{token, holder}
	}
	if !shared && token >= t.exclusive.token {
		t.exclusive = granted[H]{token, holder}
	}
}
