package mutants

// ofCrashDetection lists mutants of accusations, refutations and removals.
var ofCrashDetection = []Mutant{{
	Name: "election-only-watched",
	What: "members watch a process of the election only, which has no server",
	In:   []string{simulation},
	Edits: []Edit{{"internal/crash/suspicion/ring.go",
		`members := s.MembersWithServer()
	own :=`, `members := s.Members
	own :=`}},
}, {
	Name: "remove-without-grace-period",
	What: "an accused member is removed at once",
	In:   []string{simulation},
	Edits: []Edit{{"internal/crash/suspicion/decide.go",
		`c.Phase = Waiting
		return c, Action{Do: Wait, After: s.GracePeriod}`,
		`c.Phase = Removing
		return c, Action{Do: Remove}`}},
}, {
	Name: "distance-ignored",
	What: "an accused member has no more time where it is far from etcd",
	In:   []string{simulation},
	Seed: 1800,
	Edits: []Edit{{"internal/crash/suspicion/graceperiod.go",
		`max(least, slowdown*took, slowdown*m.RoundTrip())`, `max(least, slowdown*took)`}},
}, {
	Name: "remove-unguarded",
	What: "an accused member is removed also after it refuted",
	In:   []string{simulation},
	Seed: 275,
	Edits: []Edit{{"internal/state/txn/member.go",
		`created(node, m.Incarnation), unmodified(accusation, accused)}`, `created(node, m.Incarnation)}`}},
}, {
	Name:  "refute-nothing",
	What:  "accusations against the own living member are left alone",
	In:    []string{simulation},
	Edits: []Edit{{"internal/crash/suspicion/refutation.go", `if own == nil {`, `if true {`}},
}, {
	Name: "silence-is-evidence",
	What: "a time-out is taken for a refusal",
	In:   []string{simulation},
	Edits: []Edit{{"internal/crash/suspicion/decide.go",
		`switch {
	case (c.Phase == Opening || c.Phase == Verifying) && e == Opened:`,
		`if e == Silence {
		e = Refused
	}
	switch {
	case (c.Phase == Opening || c.Phase == Verifying) && e == Opened:`}},
}}
