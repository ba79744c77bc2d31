package mutants

// ofStops lists mutants of the order of a stop.
var ofStops = []Mutant{{
	Name: "session-ended-before-handover",
	What: "a stopping member revokes its lease before it hands its shards over",
	In:   []string{simulation},
	Edits: []Edit{{"internal/member/stop.go",
		`if r.Announced {`, `_ = m.EndSession()
	if r.Announced {`}},
}, {
	Name: "handover-skipped",
	What: "a stopping member releases its shards without waiting for others to own them",
	In:   []string{simulation},
	Edits: []Edit{{"internal/member/stop.go",
		`if r.Announced {`, `if false {`}},
}, {
	Name: "stop-keeps-shards",
	What: "a stopping member does not release the shards that nobody takes over",
	In:   []string{simulation},
	Edits: []Edit{{"internal/member/stop.go",
		`r.RecordStep("release the shards", m.releaseShards(ctx))`, ``}},
}, {
	Name: "left-while-working",
	What: "a stopping member records that it acts no more before its work has ended",
	In:   []string{simulation},
	Seed: 230,
	Edits: []Edit{{"internal/member/stop.go",
		`m.Detector.Stop(ctx)`, `m.MarkLeft(ctx)
	m.Detector.Stop(ctx)`}},
}, {
	Name: "stop-before-duty-keeps-keys",
	What: "a node that stops before it has joined keeps its keys while it serves, and with them the shards given to it",
	In:   []string{simulation},
	Seed: 235882,
	Edits: []Edit{{"internal/member/stop.go",
		`if !m.onDuty && len(r.CutShort) == 0 {`, `if false {`}},
}, {
	Name: "stop-keeps-candidacy",
	What: "a stopping member does not withdraw from the election",
	In:   []string{simulation},
	Edits: []Edit{{"internal/member/stop.go",
		`r.RecordStep("leave the election", m.Consensus.Withdraw(ctx))`, ``}},
}}
