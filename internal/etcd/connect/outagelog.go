package connect

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
)

// outageLog logs whether etcd answers.
type outageLog struct {
	log         hclog.Logger
	until       time.Time // when the attempts end; zero: never
	lastProblem *problem  // the last problem; nil if there was none
	warned      time.Time
	onWait      func(finding string, left time.Duration) // replaces the log if set
}

// newOutageLog returns the report on attempts that end with ctx.
func (c Config) newOutageLog(ctx context.Context) *outageLog {
	said := &outageLog{log: c.Logger, onWait: c.OnWait}
	if deadline, ok := ctx.Deadline(); ok {
		said.until = deadline
	}
	return said
}

// logOutage is called repeatedly while etcd does not answer.
func (r *outageLog) logOutage(p *problem) {
	r.lastProblem = p
	left := time.Until(r.until)
	over := !r.until.IsZero() && left <= 0 // there is no other attempt
	if over || !r.warned.IsZero() && time.Since(r.warned) < remindEvery {
		return
	}
	r.warned = time.Now()
	if r.onWait != nil {
		r.reportWait(p)
		return
	}
	var about []any
	if !r.until.IsZero() {
		about = append(about, "at_most", left.Round(time.Second/10).String())
	}
	r.log.Warn("etcd does not answer, retrying", append(about, "error", p)...)
}

// reportWait calls onWait with the finding of p, which is nil if there is none yet.
func (r *outageLog) reportWait(p *problem) {
	finding, left := "", time.Duration(0)
	if p != nil {
		if says, remedy := p.describeFinding(); says != "" {
			finding = says + ": " + remedy
		}
	}
	if !r.until.IsZero() {
		left = max(time.Until(r.until).Round(time.Second/10), time.Second/10)
	}
	r.onWait(finding, left)
}

// logRecovery is called when etcd has answered at last.
func (r *outageLog) logRecovery() {
	if !r.warned.IsZero() {
		r.log.Info("etcd answers")
	}
}
