//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/wait"
)

// logWaitAfter is the duration of a wait after which it is logged.
const logWaitAfter = time.Second / 5

// demoteInfoLogger logs the info lines of elections and locks at level debug, because this package logs the same events
// in its own words.
type demoteInfoLogger struct{ hclog.Logger }

// Info implements hclog.Logger.
func (d demoteInfoLogger) Info(msg string, about ...any) { d.Debug(msg, about...) }

// logWaiting logs that the wait takes long, and the name of the holder, once. It returns after that, or when
// ctx ends. While the store does not answer it logs nothing, because the keeper does.
func (c *claim) logWaiting(ctx context.Context) {
	kind, name := c.cfg.kindAndName()
	for {
		if c.store.awaitSession(ctx) != nil || !wait.For(ctx, logWaitAfter) {
			return
		}
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		first, err := c.store.readFirst(asking)
		cancel()
		switch {
		case err != nil:
			continue
		case first.owner == "":
			c.cfg.Logger.Info("waiting for the "+kind, kind, name)
		case !first.own: // otherwise the lock was granted meanwhile
			c.cfg.Logger.Info("waiting for the "+kind, kind, name, "held_by", first.owner)
		}
		return
	}
}

func (r *runner) logHeld(h *heldClaim) {
	verb := "holds"
	if r.cfg.Election != "" {
		verb = "leads"
	}
	kind, name := r.cfg.kindAndName()
	r.cfg.Logger.Info(verb+" the "+kind+", starting the command", kind, name, "token", h.token,
		"command", r.cfg.Command[0])
}

func (r *runner) logUnresponsive() {
	var about []any
	if r.cfg.GracePeriod > 0 {
		about = []any{"grace_period", r.cfg.GracePeriod.String()}
	}
	r.cfg.Logger.Warn("the command has not ended after the signal, waiting for it: a second SIGINT or SIGTERM kills it",
		about...)
}

func (r *runner) logHurry(w endRequest) {
	if w.again {
		r.cfg.Logger.Warn("killing the command: it has not ended, and a second signal came")
		return
	}
	r.cfg.Logger.Warn("killing the command: it has not ended within its grace period",
		"grace_period", r.cfg.GracePeriod.String())
}

// logEnd logs the command's end, except where the error from commandError reports it. Again means that this process
// campaigns again.
func (r *runner) logEnd(h *heldClaim, j *job, again bool) {
	kind, name := r.cfg.kindAndName()
	about := []any{kind, name, "token", h.token}
	switch {
	case again && errors.Is(j.lossReason, elections.ErrGaveWay):
		r.cfg.Logger.Info("leadership goes to another candidate as was asked for, and the command was ended; campaigning "+
			"again", about...)
	case again && !j.begun:
		r.cfg.Logger.Warn("leadership was lost before the command began, campaigning again",
			append(about, "reason", j.lossReason)...)
	case again:
		r.cfg.Logger.Warn("leadership was lost and the command ended, campaigning again",
			append(about, "reason", j.lossReason)...)
	case j.begun && len(j.lastReport.Refused) == 0 && (!j.endedByLoss() || r.endRequested):
		r.cfg.Logger.Info("the command ended", append(about, "code", j.lastReport.Code)...)
	}
}
