package schedule

// Tokens checks that the tokens of a subject grow. Holders that share the subject are not compared with each other.
// The zero value is ready.
type Tokens struct{ exclusive, any int64 }

// Observe records a token. It returns the token that it should exceed and does not, or 0 if it grows.
func (t *Tokens) Observe(token int64, shared bool) (greater int64) {
	least := t.any
	if shared {
		least = t.exclusive
	} else {
		t.exclusive = max(t.exclusive, token)
	}
	t.any = max(t.any, token)
	if token <= least {
		return least
	}
	return 0
}
