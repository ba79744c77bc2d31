package mutants

// ofElections lists mutants of candidates, terms and their writes.
var ofElections = []Mutant{{
	Name: "lead-without-session",
	What: "a member leads because the own key is first, also when the session is not valid",
	In:   []string{simulation},
	Seed: 205,
	Edits: []Edit{
		{"internal/member/candidacy/decide.go",
			`			return v.valid
		}
		return v.valid && !v.working`,
			`			return true
		}
		return !v.working`},
		{"cluster/leaderelection/term.go", `t.le.term.Load() == t && t.period.Valid()`, `t.le.term.Load() == t`},
		{"cluster/leaderelection/election.go", `return t != nil && t.period.Valid()`, `return t != nil`},
		{"cluster/leaderelection/election.go",
			`t := le.term.Load(); t != nil && t.period.Valid()`, `t := le.term.Load(); t != nil`},
		// A term that outlives its period would be decided about again and again.
		{"cluster/leaderelection/session.go", `snap || r.s.Period() != period {`, `snap {`},
	},
}, {
	Name:  "lead-beside-acting",
	What:  "a member leads while an acting leader's key still stands",
	In:    []string{simulation},
	Edits: []Edit{{"internal/member/candidacy/decide.go", `place == 0 && s.Acting == nil &&`, `place == 0 &&`}},
}, {
	Name:  "adopt-barred-key",
	What:  "a member leads by a key for which a deletion was sent, or under which a term ended",
	In:    []string{simulation},
	Edits: []Edit{{"internal/member/candidacy/decide.go", `return revision > v.barred`, `return true`}},
}, {
	Name: "late-key-stays",
	What: "a key that is not wanted stays on the own lease",
	In:   []string{simulation},
	Seed: 580,
	Edits: []Edit{{"internal/member/candidacy/decide.go",
		`case own != nil && !keep:
		if !v.working {`,
		`case own != nil && !keep:
		if !v.working && own.CreateRevision <= v.barred {`}},
}, {
	Name:  "campaign-trusted",
	What:  "a member waits for a campaign to return, though the key that it queues with is gone",
	In:    []string{simulation},
	Edits: []Edit{{"internal/member/candidacy/campaign.go", `c.running && c.joined == 0`, `c.running`}},
}, {
	Name: "flag-after-delete",
	What: "a leader gives the key up first, and lowers the flag when etcd has confirmed it",
	In:   []string{simulation},
	Edits: []Edit{
		{"internal/member/candidacy/termend.go",
			`return c.end(ReasonResigned, now, s)`,
			`c.barred = max(c.barred, c.term.Token)
	return c, Ending{}`},
		{"internal/member/candidacy/termend.go", `return c.end(ReasonStopped, now, nil)`, `return c, Ending{}`},
		{"internal/member/candidacy/decide.go",
			`d.lead, d.acting = acting.CreateRevision, true`,
			`d.lead, d.acting = acting.CreateRevision, true
	case own != nil && own.CreateRevision == v.term.Token && own.CreateRevision > v.gone:
		d.lead = own.CreateRevision`},
	},
}, {
	Name: "fallback-without-failure",
	What: "a member acts as leader as soon as the queue is empty, though no election failed",
	In:   []string{simulation},
	Edits: []Edit{
		{"internal/member/candidacy/decide.go", `!v.standing || !v.failed ||`, `!v.standing ||`},
		{"internal/member/candidacy/decide.go", `m.ElectionFailed && !m.Stopping`, `!m.Stopping`},
	},
}, {
	Name: "acting-unguarded",
	What: "the acting leader's key is created without comparing the queue as empty",
	In:   []string{simulation},
	Seed: 355,
	Edits: []Edit{{"internal/state/txn/election.go",
		`If: []Guard{queueEmpty(keys), absent(keys.Acting())}`, `If: []Guard{absent(keys.Acting())}`}},
}, {
	Name: "write-unfenced",
	What: "a term's transactions have no fence",
	In:   []string{simulation},
	Edits: []Edit{{"internal/state/txn/election.go",
		`if acting {`,
		`return nil
	if acting {`}},
}}
