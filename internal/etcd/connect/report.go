package connect

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
)

// report logs whether etcd answers.
type report struct {
	log    hclog.Logger
	until  time.Time // when the attempts end; zero: never
	last   *problem  // the last problem; nil if there was none
	warned time.Time
}

// report returns the report on attempts that end with ctx.
func (c Config) report(ctx context.Context) *report {
	said := &report{log: c.Logger}
	if deadline, ok := ctx.Deadline(); ok {
		said.until = deadline
	}
	return said
}

// away is called repeatedly while etcd does not answer.
func (r *report) away(p *problem) {
	r.last = p
	if !r.warned.IsZero() && time.Since(r.warned) < remindEvery {
		return
	}
	r.warned = time.Now()
	var about []any
	if !r.until.IsZero() {
		about = append(about, "at_most", time.Until(r.until).Round(time.Second/10).String())
	}
	r.log.Warn("etcd does not answer, retrying", append(about, "error", p)...)
}

// answered is called when etcd has answered at last.
func (r *report) answered() {
	if !r.warned.IsZero() {
		r.log.Info("etcd answers")
	}
}
