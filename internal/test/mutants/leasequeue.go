package mutants

// ofLeaseQueues lists mutants of lease queues, on which locks, elections and effects are built.
var ofLeaseQueues = []Mutant{{
	Name: "silence-not-committed",
	What: "a batch whose answer was lost is sent again, as if it had not been committed",
	In:   []string{queues},
	Edits: []Edit{{"internal/leasequeue/resolve.go",
		`return string(kvs[0].Value) == strconv.FormatInt(l.number, 10)`, `return false`}},
}, {
	Name: "batch-unnumbered",
	What: "a batch is sent without the condition that the one before it is the last",
	In:   []string{queues},
	Edits: []Edit{{"internal/leasequeue/lane.go",
		`return l.commitNext(l.composer.compose(l.counter, l.number, batch)...)`,
		`return l.r.commitTxn(l.r.ctx, nil, l.composer.compose(l.counter, l.number, batch),
			[]clientv3.Op{clientv3.OpGet(l.counter)})`}},
}, {
	Name: "barred-key-given",
	What: "a key is assigned that a request under way may still delete",
	In:   []string{queues},
	Seed: 140,
	Edits: []Edit{{"internal/leasequeue/keyring.go",
		`r.entries[key] == nil && r.keyring.barred[key] == 0`, `r.entries[key] == nil`}},
}, {
	Name: "enter-beside-leaving",
	What: "an entry enters while another one's deletion is under way in another lane",
	In:   []string{queues},
	Edits: []Edit{
		{"internal/leasequeue/outbox.go",
			`case l.entering || l.leaving > 0:
		l.behind`,
			`case l.entering:
		l.behind`},
		{"internal/leasequeue/outbox.go",
			`|| b.lines[queue].leaving > own[queue] {`, `|| b.lines[queue].leaving > own[queue] && false {`},
	},
}, {
	Name: "release-unguarded",
	What: "the keys of entries that leave are deleted without a number and without their own condition",
	In:   []string{queues},
	Edits: []Edit{{"internal/leasequeue/lane.go",
		`guard, deletion := []clientv3.Cmp{o.entry.Guard()},`,
		`guard, deletion := []clientv3.Cmp(nil),`}},
}, {
	Name: "found-is-first",
	What: "an entry whose answer was lost is taken for first",
	In:   []string{queues},
	Edits: []Edit{{"internal/leasequeue/resolve.go",
		`l.modified, ahead(o.entry, found))`, `l.modified, ahead(o.entry, found) || true)`}},
}, {
	Name: "gone-unnoticed",
	What: "an engine never looks whether a key of its own is gone",
	In:   []string{queues},
	Edits: []Edit{{"internal/leasequeue/repair.go",
		`if !used {
		return`,
		`if !used || true {
		return`}},
}, {
	Name:  "watch-trusted",
	What:  "a queue is read once, and its watch is believed from then on",
	In:    []string{queues},
	Seed:  505,
	Edits: []Edit{{"internal/leasequeue/watch.go", `again = true`, `again = false`}},
}, {
	Name: "refused-forgotten",
	What: "an entry whose deletion was refused is never deleted again",
	In:   []string{queues},
	Edits: []Edit{{"internal/leasequeue/repair.go",
		`for _, x := range stuck {`, `for _, x := range stuck[:0] {`}},
}, {
	Name: "gone-is-given-up",
	What: "every entry that is gone from etcd is taken for one that was given up",
	In:   []string{queues},
	Edits: []Edit{{"internal/leasequeue/run.go",
		`return r.e.cfg.View == nil || r.e.cfg.View.Fresh(r.term.Load())`, `return true`}},
}, {
	Name:  "unwanted-stays",
	What:  "an entry that was given up before etcd had answered stays in the queue",
	In:    []string{queues},
	Edits: []Edit{{"internal/leasequeue/entrystate/entrystate.go", `unwanted := p.Key == Unwanted`, `unwanted := false`}},
}}
