//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/test/faults"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
)

// RemoveAlive causes the overlap that crash detection does not exclude. A living leader pauses for a moment,
// and just then its port refuses connections and its packets to etcd are dropped. It resumes before its
// deadline and believes that it still leads, until it finds its watchers' connections broken and etcd silent
// for the grace period. RemoveAlive returns the verdict on the history, and the time from the fault until the
// leader was removed.
func RemoveAlive(ctx context.Context, cfg Config) (v history.Verdict, took time.Duration, err error) {
	w, err := newWorld(ctx, cfg)
	if err != nil {
		return v, 0, err
	}
	n := w.leader()
	if n == nil {
		return v, 0, errors.Join(errors.New("nobody leads"), w.close())
	}
	end := w.rec.BeginFault(n.address(), "outcast", "")
	before := n.incarnation()
	began := time.Now()
	err = w.rec.Intervene(n.address(), history.RemovedAlive, func() error {
		if _, err := n.currentProcess().Freeze(); err != nil {
			return err
		}
		faults.CutOff.Begin(n.etcdPath(), nil) // CutOff uses no random numbers
		n.entrance.Refuse()
		gone := n.awaitGone(ctx, before)
		took = time.Since(began)
		_, err := n.currentProcess().Thaw()
		return errors.Join(gone, err)
	})
	// Wait long enough for any claim that it may still make.
	wait.For(ctx, time.Duration(cfg.TTL)*time.Second)
	err = errors.Join(err, n.healNetwork())
	if err == nil {
		err = n.awaitBack(ctx, before)
	}
	end()
	if err == nil {
		err = errors.Join(w.awaitCalm(ctx), w.stop(ctx))
	}
	said := n.output()
	if err := errors.Join(err, w.close()); err != nil {
		return v, took, fmt.Errorf("%w\n%s", err, said)
	}
	v, err = w.judgeRecords()
	return v, took, err
}
