package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goverse/goverse/internal/test/invariant"
)

// checkTokens finds terms of a subject without a token, and terms with a token no greater than those of all terms
// that certainly came before. Each is reported once, with the greatest token before it. Terms that share a lock
// are not compared with each other. Overlaps are not reported here. It returns the exempt findings separately: a
// holder that loses its key out of band right after the grant may claim it only once the next holder is done.
//
// Three cases may keep a token. The owner of a shard may continue under its epoch after a suspension, on the
// same session, if no other node had a greater epoch meanwhile. A leader may continue by its token after its
// process stood still, once etcd has confirmed its session. An object may be activated again on its node under
// the epoch of its shard.
func checkTokens(terms []Term, e exemptions) (found, exempt []Finding) {
	byEnd := slices.Clone(terms)
	slices.SortFunc(byEnd, func(a, b Term) int { return cmp.Compare(a.Last.After, b.Last.After) })
	byStart := slices.Clone(terms)
	slices.SortFunc(byStart, func(a, b Term) int { return cmp.Compare(a.First.Before, b.First.Before) })
	var before invariant.Tokens[*Term] // of the terms before y
	for _, y := range byStart {
		for ; len(byEnd) > 0 && y.startsAfter(byEnd[0]); byEnd = byEnd[1:] {
			before.Add(byEnd[0].Token, byEnd[0].Shared, &byEnd[0])
		}
		_, greatest := before.Greatest(y.Shared)
		f := Finding{Kind: Token, Subject: y.Subject, From: y.First.Before, To: y.Last.After}
		switch {
		case y.Token == 0:
			f.Terms, f.Text = []Term{y}, fmt.Sprintf("no %s: %v", y.Subject.tokenName(), y)
		case greatest == nil || greatest.Token < y.Token:
			continue
		case greatest.Token == y.Token && y.Subject.hasKind(ofObject) && greatest.Process == y.Process &&
			greatest.Node == y.Node && greatest.Session == y.Session:
			continue
		case greatest.Token == y.Token && greatest.NodeLife == y.NodeLife && y.Subject != Leadership &&
			greatest.Session == y.Session:
			continue
		case greatest.Token == y.Token && greatest.NodeLife == y.NodeLife && y.resumed:
			continue
		case greatest.Token == y.Token && greatest.NodeLife == y.NodeLife && y.Subject == Leadership:
			f.Terms, f.Text = []Term{*greatest, y}, fmt.Sprintf("a term came back after it had ended: %v", y)
		default:
			f.Terms, f.Text = []Term{*greatest, y},
				fmt.Sprintf("the %s did not grow: %v, after %v", y.Subject.tokenName(), y, *greatest)
			if y.Token < greatest.Token {
				f.Mark = e.markFor(y, f.From, y.Ended(), false)
			}
		}
		if f.Mark != nil {
			exempt = append(exempt, f)
			continue
		}
		found = append(found, f)
	}
	return found, exempt
}
