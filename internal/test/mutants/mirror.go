package mutants

// ofMirrors lists mutants of the snapshot, and of the watch that keeps it current.
var ofMirrors = []Mutant{{
	Name:  "watch-from-now",
	What:  "the watch begins at the next revision of all, 0 for etcd, not at the one after the read",
	In:    []string{simulation},
	Edits: []Edit{{"internal/etcd/watchprogress/progress.go", `return w.reached + 1`, `return 0`}},
}, {
	Name: "silence-trusted",
	What: "a watch that delivers nothing is taken for one with nothing to report",
	In:   []string{simulation},
	Edits: []Edit{{"internal/etcd/watchprogress/progress.go",
		`if !w.opened || w.awaited != 0 || known <= w.reached {`, `if true {`}},
}, {
	Name: "lack-ignored",
	What: "a watch that brings nothing is taken to lack nothing, though a comparison with etcd shows what it lacks",
	In:   []string{simulation},
	Edits: []Edit{{"internal/state/snapshot.go",
		`return newest > s.Revision || total != s.Total`, `return false`}},
}, {
	Name: "nobody-lingers",
	What: "others take over at once from a member whose lease was revoked, though it may have been renewed in time",
	In:   []string{simulation},
	Edits: []Edit{
		{"internal/etcd/lingering/lingering.go", `!m.Left && !s.Lingers(m)`, `!m.Left && false`},
		{"internal/etcd/lingering/lingering.go", `return own.Address == "" ||`, `return true || own.Address == "" ||`},
	},
}}
