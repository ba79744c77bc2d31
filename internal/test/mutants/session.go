package mutants

// ofSessions lists mutants of sessions and their deadlines.
var ofSessions = []Mutant{{
	Name: "deadline-from-receipt",
	What: "a session's deadline counts from when the renewal's answer came, not from when it was sent",
	In:   []string{simulation, sessions},
	Edits: []Edit{{"internal/etcd/deadline/deadline.go",
		`c.until, c.renewed = counts.Add(c.ttl-margin(c.ttl)), counts`,
		`c.until, c.renewed = answered.Add(c.ttl-margin(c.ttl)), answered`}},
}, {
	Name: "late-answer-counts",
	What: "a renewal that was answered after the deadline brings the session back",
	In:   []string{simulation},
	Edits: []Edit{
		{"internal/etcd/deadline/deadline.go", `case c.Ended(answered):`, `case false:`},
		{"internal/etcd/deadline/deadline.go",
			`suspended := !c.Valid(answered)`, `suspended := !c.Valid(answered) && !c.Ended(answered)`},
	},
}, {
	Name:  "no-second-answer",
	What:  "one member's answer that it does not find the lease ends the session",
	In:    []string{sessions},
	Edits: []Edit{{"internal/etcd/etcdsession/renew.go", `	case stands:`, `	case stands && false:`}},
}, {
	Name: "suspected-waits",
	What: "a suspected session waits for the answer of a member of etcd that is gone",
	In:   []string{sessions},
	Test: "TestSuspectedSessionAsksElsewhere",
	Edits: []Edit{{"internal/etcd/etcdsession/renew.go",
		`if !s.claim.Load().Suspected() && s.pausesHarmless(`, `if true || s.pausesHarmless(`}},
}, {
	Name: "refusal-waits",
	What: "a suspected session that is told that its lease is gone waits for the member of etcd that is gone",
	In:   []string{sessions},
	Test: "TestSuspectedSessionAsksElsewhere",
	Edits: []Edit{{"internal/etcd/etcdsession/renew.go",
		`if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, rpctypes.ErrPermissionDenied) {`, `if false {`}},
}, {
	Name: "suspicion-ignored",
	What: "a member goes on as before when a watcher's stream broke and etcd does not answer",
	In:   []string{simulation},
	Edits: []Edit{{"internal/etcd/deadline/deadline.go",
		`if !c.suspected {`,
		`return c
	if !c.suspected {`}},
}, {
	Name: "period-goes-on",
	What: "a session that was suspended counts again as if it had all the time, and its term goes on",
	In:   []string{simulation},
	Seed: 90, // with seed 47 it calls decide forever, which takes three minutes to notice
	Edits: []Edit{
		{"internal/etcd/deadline/deadline.go", `if suspended && c.Valid(answered) {`, `if suspended && false {`},
		{"internal/member/candidacy/decide.go",
			`			return v.valid
		}`,
			`			return true
		}`},
	},
}, {
	Name:  "term-unchecked",
	What:  "a renewal counts whose read was answered in another term of etcd's leader",
	In:    []string{sessions},
	Edits: []Edit{{"internal/etcd/deadline/term.go", `return renewed == read`, `return true`}},
}, {
	Name:  "keys-not-checked",
	What:  "a renewal succeeds whose read missed the own keys",
	In:    []string{simulation},
	Edits: []Edit{{"internal/etcd/deadline/deadline.go", `return found == created`, `return true`}},
}, {
	Name: "early-revocation-unreported",
	What: "a member that missed its node key before its lease does not report that etcd revoked that early",
	In:   []string{simulation},
	Seed: 1700,
	Edits: []Edit{{"internal/etcd/etcdsession/session.go",
		`		s.recordLeaseGone()
	case err`, `	case err`}},
}, {
	Name: "pause-trusted",
	What: "a process that stood still claims on what it had, though etcd may have revoked its lease early",
	In:   []string{sessions},
	Test: "TestPauseIsConfirmed",
	Edits: []Edit{{"internal/etcd/deadline/pauses.go",
		`return p.began && (p.unsure ||`,
		`return false && p.began && (p.unsure ||`}},
}, {
	Name:  "pauses-starve",
	What:  "a process that is paused in each round keeps a lease that etcd cannot confirm, forever",
	In:    []string{sessions},
	Test:  "TestPausesAtAnyRate",
	Edits: []Edit{{"internal/etcd/deadline/pauses.go", `return p.wasted > max(`, `return false && p.wasted > max(`}},
}, {
	Name: "pauses-begin-nothing",
	What: "a process that is paused in each round begins nothing, forever, on a lease that nobody can take",
	In:   []string{sessions},
	Test: "TestPausesAtAnyRate",
	Edits: []Edit{{"internal/etcd/deadline/pauses.go",
		`return !p.Stood(now) || !now.Reached(p.newWorkUntil)`, `return !p.Stood(now)`}},
}}
