package mutants

// ofProcessors lists mutants of what operators request of processors.
var ofProcessors = []Mutant{{
	Name: "pause-ignored",
	What: "a leader acknowledges a pause and goes on",
	In:   []string{processors},
	Test: "TestTransactions",
	Edits: []Edit{{"cluster/processor/pause.go",
		`for acknowledged := int64(-1); t.mark.Paused && ctx.Err() == nil; {`,
		`t.p.report.setPaused(t.mark)
	t.reports.Send()
	for acknowledged := int64(-1); false; {`}},
}, {
	Name: "replay-keeps-records",
	What: "a replay does not remove the records of the parked events that it handles, so that they can be retried",
	In:   []string{processors},
	Test: "TestReplayOrRetry",
	Edits: []Edit{{"cluster/processor/batch.go",
		`p.Handled = append(p.Handled, at)`, ``}},
}, {
	Name: "retry-during-replay",
	What: "a leader retries an event to which a replay comes by itself",
	In:   []string{processors},
	Test: "TestReplayOrRetry",
	Edits: []Edit{{"cluster/processor/term.go",
		`if t.mark.Retry != "" && t.mark.Replay == "" {`, `if t.mark.Retry != "" {`}},
}, {
	Name: "retry-keeps-record",
	What: "a retry handles an event and does not remove its record",
	In:   []string{processors},
	Test: "TestTransactions",
	Edits: []Edit{{"cluster/processor/retry.go",
		`return Progress{Position: t.mark.Position, Handled: []Position{event.Position}}, nil`,
		`return Progress{Position: t.mark.Position, Failed: &Parked{Position: event.Position}}, nil`}},
}, {
	Name: "pause-acknowledged-by-former-leader",
	What: "an operator takes the report of a former leader for that of the present one",
	In:   []string{processors},
	Test: "TestPauseOfTheNextLeader",
	Edits: []Edit{{"cluster/processor/manage.go",
		`return s.Report != nil && s.Report.Token == s.Token && s.Report.Claim == s.Claim`,
		`return s.Report != nil`}},
}}
