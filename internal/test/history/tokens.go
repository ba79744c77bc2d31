package history

import (
	"cmp"
	"fmt"
	"slices"
)

// tokens finds the terms of a subject whose token is not greater than that of every term that was surely seen
// before them, and claims by no token at all. Each is reported once, beside the greatest token before it. Those
// who share a lock are not compared with each other. Terms that overlap are found as that. A shard's owner that
// was suspended may go on under the epoch that it had, on the same session, as long as nobody has had it since;
// so may a leader whose process stood still, by its token, when etcd has confirmed its session. An object may be
// activated again on its node under the epoch of its shard.
func tokens(terms []Term) []Finding {
	byEnd := slices.Clone(terms)
	slices.SortFunc(byEnd, func(a, b Term) int { return cmp.Compare(a.Last.After, b.Last.After) })
	byStart := slices.Clone(terms)
	slices.SortFunc(byStart, func(a, b Term) int { return cmp.Compare(a.First.Before, b.First.Before) })
	var out []Finding
	var every, exclusive *Term // the greatest of those before y
	greater := func(a, b *Term) *Term {
		if a == nil || b.Token >= a.Token {
			return b
		}
		return a
	}
	for _, y := range byStart {
		for ; len(byEnd) > 0 && y.after(byEnd[0]); byEnd = byEnd[1:] {
			every = greater(every, &byEnd[0])
			if !byEnd[0].Shared {
				exclusive = greater(exclusive, &byEnd[0])
			}
		}
		greatest := every
		if y.Shared {
			greatest = exclusive
		}
		f := Finding{Kind: Token, Subject: y.Subject, From: y.First.Before, To: y.Last.After}
		switch {
		case y.Token == 0:
			f.Terms, f.Text = []Term{y}, fmt.Sprintf("no %s: %v", y.Subject.token(), y)
		case greatest == nil || greatest.Token < y.Token:
			continue
		case greatest.Token == y.Token && y.Subject.is(ofObject) && greatest.Process == y.Process &&
			greatest.Node == y.Node && greatest.Session == y.Session:
			continue
		case greatest.Token == y.Token && greatest.Who == y.Who && y.Subject != Leadership && greatest.Session == y.Session:
			continue
		case greatest.Token == y.Token && greatest.Who == y.Who && y.resumed:
			continue
		case greatest.Token == y.Token && greatest.Who == y.Who && y.Subject == Leadership:
			f.Terms, f.Text = []Term{*greatest, y}, fmt.Sprintf("a term came back after it had ended: %v", y)
		default:
			f.Terms, f.Text = []Term{*greatest, y},
				fmt.Sprintf("the %s did not grow: %v, after %v", y.Subject.token(), y, *greatest)
		}
		out = append(out, f)
	}
	return out
}
