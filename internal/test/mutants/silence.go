package mutants

// ofSilence lists mutants of the removal of silent members.
var ofSilence = []Mutant{{
	Name: "silence-acknowledges-while-accusing",
	What: "a watcher acknowledges heartbeats although its accusation stands",
	In:   []string{silence},
	Edits: []Edit{{"internal/crash/silence/judge.go",
		`	case Accusing, Waiting:
		j.phase = Withdrawing
	}
	return j, false`,
		`	}
	return j, true`}},
}, {
	Name: "silence-removal-at-once",
	What: "a watcher removes a member as soon as etcd acknowledged the accusation",
	In:   []string{silence},
	Edits: []Edit{{"internal/crash/silence/judge.go",
		`max(j.receipt+drift(t.Acknowledged), now+max(drift(t.Read), gracePeriod))`, `now+min(0, t.Read)`}},
}, {
	Name: "silence-removal-counts-from-accusation",
	What: "a watcher removes a member without regard to the heartbeat that it acknowledged last",
	In:   []string{silence},
	Edits: []Edit{{"internal/crash/silence/judge.go",
		`max(j.receipt+drift(t.Acknowledged), now+max(drift(t.Read), gracePeriod))`,
		`now+max(drift(t.Read), gracePeriod)`}},
}, {
	Name: "silence-removal-counts-from-heartbeat",
	What: "a watcher removes a member without regard to when etcd acknowledged the accusation",
	In:   []string{silence},
	Edits: []Edit{{"internal/crash/silence/judge.go",
		`max(j.receipt+drift(t.Acknowledged), now+max(drift(t.Read), gracePeriod))`,
		`max(j.receipt+drift(t.Acknowledged), now+gracePeriod)`}},
}, {
	Name:  "silence-clocks-agree",
	What:  "a watcher waits no longer than the member relies on its proofs, whatever the rates of their clocks",
	In:    []string{silence},
	Edits: []Edit{{"internal/crash/silence/judge.go", `return d + d*203/10_000`, `return d`}},
}, {
	Name: "silence-proof-from-receipt",
	What: "an acknowledged heartbeat counts from when the acknowledgement came, not from when the heartbeat was sent",
	In:   []string{silence},
	Edits: []Edit{{"internal/etcd/deadline/proofs.go",
		`armed[i].acknowledged = sent`, `armed[i].acknowledged = now`}},
}, {
	Name: "silence-read-from-answer",
	What: "a read counts from when its answer came",
	In:   []string{silence},
	Edits: []Edit{{"internal/etcd/deadline/proofs.go",
		`		after.read = sent
	}
	if after`, `		after.read = now
	}
	if after`}},
}, {
	Name: "silence-lapse-forgotten",
	What: "a member whose proofs lapsed claims again by acknowledgements or a goodbye, without a read",
	In:   []string{silence},
	Edits: []Edit{{"internal/etcd/deadline/proofs.go",
		`after.lapsed = p.lapsed || !p.holds(now)`, `after.lapsed = p.lapsed`}},
}, {
	Name: "silence-arming-renews",
	What: "a watcher that is armed anew counts as having acknowledged a heartbeat",
	In:   []string{silence},
	Edits: []Edit{{"internal/etcd/deadline/proofs.go",
		`armed[i].arming = arming`, `armed[i] = armedWatcher{watcher, arming, now}`}},
}, {
	Name: "silence-late-mirror-drops",
	What: "a member drops a watcher that a late mirror does not show yet",
	In:   []string{silence},
	Edits: []Edit{{"internal/etcd/deadline/proofs.go",
		`return a.watcher <= revision && !isMember(a.watcher)`, `return !isMember(a.watcher)`}},
}, {
	Name: "silence-goodbye-owed-if-heard",
	What: "a watcher owes a goodbye only to a member of which it has heard that it was armed",
	In:   []string{simulation},
	Test: "TestHoleArmedWithoutKnowingIt",
	Edits: []Edit{{"internal/crash/watched.go",
		`w.mayBeArmed || w.watch.Heartbeats()`, `w.mayBeArmed || w.silence.arming() > w.armingBefore`}},
}, {
	Name: "silence-goodbye-owed-is-forgotten",
	What: "a watcher that watches a member again forgets the goodbye that it owes",
	In:   []string{simulation},
	Test: "TestHoleArmedWithoutKnowingIt",
	Edits: []Edit{{"internal/crash/watched.go",
		`	w.d.stopOwedGoodbye(w)`, `	w.d.stopOwedGoodbye(w)
	w.mayBeArmed = false`}},
}, {
	Name: "silence-goodbye-owed-to-an-incarnation",
	What: "a watcher owes no goodbye to a process that has registered again, though that may arm it again",
	In:   []string{simulation},
	Seed: 110797,
	Edits: []Edit{{"internal/crash/owed.go",
		`m == nil && time.Since(seen) > armedUntil,`,
		`m == nil && time.Since(seen) >= 0, m != nil && m.Incarnation != o.member.Incarnation,`}},
}, {
	Name: "silence-goodbye-owed-by-an-incarnation",
	What: "a watcher that is registered no more owes no goodbye, though it may be armed when it registers again",
	In:   []string{simulation},
	Seed: 102028,
	Edits: []Edit{{"internal/crash/owed.go",
		`case m != nil && own != nil:`, `case own == nil:
			return
		case m != nil:`}},
}, {
	Name: "silence-old-goodbye-releases",
	What: "a goodbye on an old stream drops a watcher that was armed again since",
	In:   []string{silence},
	Edits: []Edit{{"internal/etcd/deadline/proofs.go",
		`return a.arming == arming`, `return a.arming >= arming`}},
}, {
	Name: "silence-one-acknowledgement-suffices",
	What: "a member claims as long as one of its watchers acknowledges",
	In:   []string{silence},
	Edits: []Edit{{"internal/etcd/deadline/proofs.go",
		`if p.oldest = earlier(p.oldest, a.acknowledged); i == 0 {`,
		`if i == 0 || a.acknowledged.Mono > p.oldest.Mono {`}},
}, {
	Name: "silence-released-arming-counts",
	What: "a watcher that says goodbye is armed by heartbeats that arrive after its release",
	In:   []string{silence},
	Edits: []Edit{{"internal/crash/silence/judge.go",
		`return Judge{released: true}`, `return Judge{}`}},
}, {
	Name: "silence-removal-by-a-removed-watcher",
	What: "a watcher that is no member any more removes a silent one",
	In:   []string{simulation},
	Edits: []Edit{{"internal/state/txn/silenceaccusation.go",
		`If: []Guard{created(node, m.Incarnation), created(keys.Node(accuser.Address), accuser.Incarnation),
		created(accusation`, `If: []Guard{created(node, m.Incarnation),
		created(accusation`}},
}, {
	Name: "silence-removal-unguarded",
	What: "a watcher removes a silent member that has refuted the accusation",
	In:   []string{simulation},
	Edits: []Edit{{"internal/state/txn/silenceaccusation.go",
		`accuser.Incarnation),
		created(accusation, accused)}`, `accuser.Incarnation)}`}},
}, {
	Name: "silence-watcher-leaves",
	What: "a watcher that is to watch another member instead leaves a silent one, which arms no other watcher",
	In:   []string{simulation},
	Test: "TestHoleRingChangesWhileAccusing",
	Edits: []Edit{{"internal/crash/detector.go",
		`|| !armed ||`, `|| !armed || true ||`}},
}, {
	Name: "removal-reports-ignored",
	What: "a report of a removal is no reason to compare the view of the cluster with etcd",
	In:   []string{simulation},
	Test: "TestHoleWatchGoneWithTheHost",
	Edits: []Edit{{"internal/crash/removals.go",
		`d.cfg.Settings.Off || s == nil`, `true || s == nil`}},
}, {
	Name: "silence-proofs-ignored",
	What: "a session is valid although no proof holds",
	In:   []string{simulation},
	Edits: []Edit{
		{"internal/etcd/etcdsession/session.go", `s.pausesHarmless(now) && s.proofs.Load().Valid(now)`,
			`s.pausesHarmless(now)`},
		{"internal/etcd/etcdsession/validity.go", `t.s.pausesHarmless(now) &&
		t.s.proofs.Load().Valid(now)`, `t.s.pausesHarmless(now)`},
	},
}, {
	Name: "silence-accused-read-proves",
	What: "a read that shows an accusation is a proof",
	In:   []string{simulation},
	Edits: []Edit{{"internal/etcd/etcdsession/proof.go",
		`if len(keys) == 0 {`, `if true {`}},
}}
