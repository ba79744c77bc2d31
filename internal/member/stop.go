package member

import "context"

// Stop hands this member's duties over and ends it. The order of its steps, each of which is bounded:
//
//   - It records that this member stops, so that its end is no crash, and takes it out of the election.
//   - It waits until other members own its shards, and releases the rest.
//   - It ends the work that depends on the session: hooks.EndWork.
//   - It says goodbye to the watched members, and has the server do so to the watchers: hooks.StopServing.
//   - It records that the other members need not wait for this one, if all its work has ended.
//   - It makes the last requests, hooks.WriteLast, ends the session and revokes its lease.
//   - It waits for all goroutines: hooks.Close.
//
// The later steps do the work of a step that was cut short, and keys that remain in etcd go with the session. If ctx
// ends, Stop waits for nothing but the revocation, for about a second. Stop may follow a Join that has failed: then the
// session ends before StopServing.
func (m *Member) Stop(ctx context.Context, hooks StopHooks) *StopReport {
	r := &StopReport{}
	var err error
	r.Announced, err = m.MarkStopping(ctx)
	r.RecordStep("mark stopping", err)
	// Without a session there is nothing to leave, but a new session must not queue again.
	r.RecordStep("leave the election", m.Consensus.Withdraw(ctx))
	if r.Announced {
		r.RecordStep("hand the shards over", m.handOverShards(ctx))
	}
	r.RecordStep("release the shards", m.releaseShards(ctx))
	if hooks.EndWork != nil {
		hooks.EndWork(ctx, r)
	}
	m.Detector.Stop(ctx)
	if !m.onDuty && len(r.CutShort) == 0 {
		// It reports no shard as released. Those that a map has given it meanwhile wait until its keys are gone.
		m.MarkLeft(ctx)
		_ = m.EndSession() // the call below returns the same error
	}
	if hooks.StopServing != nil {
		hooks.StopServing(ctx, r)
	}
	if len(r.CutShort) == 0 {
		m.MarkLeft(ctx)
	}
	if hooks.WriteLast != nil {
		last, cancel := m.WithMarkTimeout(ctx)
		hooks.WriteLast(last)
		cancel()
	}
	r.Left = m.EndSession()
	m.Consensus.Close()
	if hooks.Close != nil {
		hooks.Close()
	}
	m.Registration.Close()
	return r
}

// StopHooks holds the parts that those who build on a member have in its stop. Each may be nil.
type StopHooks struct {
	// EndWork ends the work that depends on the session, such as that under locks. This member no longer leads, and
	// has released its shards.
	EndWork func(ctx context.Context, r *StopReport)
	// StopServing says goodbye to the members that watch this one, and serves running calls to their end.
	StopServing func(ctx context.Context, r *StopReport)
	// WriteLast makes this member's last requests. Its context ends after a second at most.
	WriteLast func(ctx context.Context)
	// Close ends the goroutines that use the member, and waits for them. The session has ended.
	Close func()
}

// StopReport describes a stop.
type StopReport struct {
	// Announced is set if etcd has recorded that this member stops, so that the others can take over.
	Announced bool
	// CutShort holds a StepError for each step that was cut short, in order.
	CutShort []error
	// Left is the error because of which etcd did not confirm that this member's keys are gone, or nil.
	Left error
}

// StepError is the error of a step of a stop that was cut short.
type StepError struct {
	Step string
	Err  error
}

// Error returns a text with the step.
func (e *StepError) Error() string { return e.Step + ": " + e.Err.Error() }

// Unwrap returns the step's error.
func (e *StepError) Unwrap() error { return e.Err }

// RecordStep records that a step was cut short, if err is not nil.
func (r *StopReport) RecordStep(step string, err error) {
	if err != nil {
		r.CutShort = append(r.CutShort, &StepError{step, err})
	}
}
