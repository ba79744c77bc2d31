package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Resolve implements [once.Registry]. A lost session only delays it.
func (e *Effects) Resolve(ctx context.Context, name string, token int64, tookPlace bool, value []byte) error {
	if err := state.CheckName("effect", name); err != nil {
		return err
	}
	if len(value) > once.MaxValue {
		return fmt.Errorf("effect %q, %d bytes: %w", name, len(value), once.ErrValueTooLong)
	}
	m := once.Standing{Name: name, State: once.Failed, Token: token, Resolved: e.owner}
	if tookPlace {
		m.State, m.Value = once.Done, value
	}
	for written := false; ; {
		c, err := e.keeper.Acquire(ctx, claims.Spec{Name: prefix + name})
		if err != nil {
			return err
		}
		again, err := e.tryResolve(ctx, c, m, &written)
		if !again {
			return err
		}
	}
}

// tryResolve carries out Resolve with a claim, and releases it. again reports that the claim was lost. written
// reports that the outcome was written under an earlier one, and the answer perhaps lost.
func (e *Effects) tryResolve(ctx context.Context, c *claims.Claim, m once.Standing, written *bool) (again bool,
	err error) {
	defer e.releaseClaim(ctx, c)
	now, err := e.readMark(ctx, m.Name)
	switch {
	case err != nil:
		return false, err
	case *written && now.Token == m.Token && now.State == m.State && now.Resolved == m.Resolved:
		return false, nil
	case now.Token != m.Token || now.State != once.Running && now.State != once.Unknown:
		return false, fmt.Errorf("effect %q, token %d: %w", m.Name, m.Token, once.ErrNotUnknown)
	}
	*written = true
	work, stop := wait.MergeContexts(ctx, c.Context())
	defer stop()
	err = e.storeOutcome(work, c, m)
	switch {
	case err == nil:
		if e.deleteDue() {
			e.deleteExpired(ctx)
		}
		return false, nil
	case ctx.Err() != nil:
		return false, errors.Join(err, context.Cause(ctx))
	}
	return errors.Is(err, errOutcomeRefused) || work.Err() != nil, err
}
