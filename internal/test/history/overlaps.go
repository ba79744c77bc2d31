package history

import "fmt"

// findOverlaps finds the pairs of terms of a subject that certainly existed at one instant and do not share it. It
// returns the exempt pairs separately. The terms are in the order of Begun.
func findOverlaps(terms []Term, e exemptions) (found, exempt []Finding) {
	for i, x := range terms {
		for _, y := range terms[i+1:] {
			if y.Begun() >= x.Ended() {
				break // all that follow have begun even later
			}
			if !x.surelyOverlaps(y) || x.Shared && y.Shared {
				continue
			}
			f := overlapFinding(x, y)
			if f.Mark = e.markFor(f.Terms[0], f.From, f.To, f.instant); f.Mark != nil {
				exempt = append(exempt, f)
				continue
			}
			found = append(found, f)
		}
	}
	return found, exempt
}

// overlapFinding describes an overlap, with the older term, by token, first.
func overlapFinding(x, y Term) Finding {
	if y.Token < x.Token {
		x, y = y, x
	}
	f := Finding{Kind: Overlap, Subject: x.Subject, Terms: []Term{x, y},
		From: max(x.Begun(), y.Begun()), To: min(x.Ended(), y.Ended())}
	if f.From > f.To {
		// One term was seen only once, within the other: the overlap was at some instant in between.
		f.From, f.To, f.instant = f.To, f.From, true
	}
	f.Text = fmt.Sprintf("%s: %v, and %v", x.Subject.describeOverlap(), x, y)
	return f
}
