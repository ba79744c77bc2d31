package mutants

// ofShards lists mutants of the shard map, and of the handoff of shards.
var ofShards = []Mutant{{
	Name: "election-only-plans",
	What: "no member plans while a process of the election only leads",
	In:   []string{simulation},
	Edits: []Edit{{"internal/state/planningduty.go",
		`if m := s.MemberOf(c); m != nil && !m.ElectionOnly {`, `if m := s.MemberOf(c); m != nil {`}},
}, {
	Name:  "takeover-unreleased",
	What:  "a shard is served without waiting for the one before to release it",
	In:    []string{simulation},
	Edits: []Edit{{"internal/sharding/ownership/ownership.go", `&& !in.Done(move)`, `&& false`}},
}, {
	Name: "owner-by-address",
	What: "a member takes an owner at its own address for itself, whatever the incarnation",
	In:   []string{simulation},
	Edits: []Edit{{"internal/sharding/ownership/ownership.go",
		`return ok && owner == in.Own`, `return ok && owner.Address == in.Own.Address`}},
}, {
	Name: "stale-report-accepted",
	What: "a report about an older map is taken for one about this",
	In:   []string{simulation},
	Edits: []Edit{{"internal/state/shards.go",
		`report = r.Report`,
		`report = r.Report
		if report.Generation > 0 {
			report.Generation = max(report.Generation, move.Since)
		}`}},
}, {
	Name: "epoch-ignored",
	What: "a shard that was assigned to its owner anew is kept under the old epoch",
	In:   []string{simulation},
	Seed: 335,
	Edits: []Edit{{"internal/sharding/ownership/ownership.go",
		`case held != 0 && (!mine || held != epoch):`,
		`case held > 0 && mine:
		case held != 0 && (!mine || held != epoch):`}},
}, {
	Name: "map-unfenced",
	What: "the shard map is written without the planner's fence",
	In:   []string{simulation},
	Edits: []Edit{{"internal/state/txn/shards.go",
		`append([]Guard{unmodified(key, over)}, fence...)`, `[]Guard{unmodified(key, over)}`}},
}, {
	Name: "lapsed-kept",
	What: "a shard is kept that was acquired before the session was suspended",
	In:   []string{simulation},
	Edits: []Edit{{"internal/sharding/ownership/ownership.go",
		`case held != 0 && (!mine || held != epoch):`,
		`case held == Lapsed && mine:
		case held != 0 && (!mine || held != epoch):`}},
}}

// ofObjects lists mutants of the objects that live in a shard.
var ofObjects = []Mutant{{
	Name: "activation-stays",
	What: "the objects of a shard that leaves stay, until it comes back",
	In:   []string{hosts},
	Test: "TestShardLeaves",
	Edits: []Edit{{"internal/objects/host/shard.go",
		`all := s.retireObjects()`,
		`return
	all := s.retireObjects()`}},
}}
