package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/node"
)

// CutShortError is what Stop returns when steps of it were cut short, or etcd did
// not answer: one line, and each step's error to be found with errors.Is and As.
type CutShortError struct {
	// Steps are the errors of the steps that were cut short, in their order.
	Steps []error
	// Cause is why the context given to Stop ended, nil if it did not.
	Cause error
	// Left is why etcd did not confirm that this node's keys are gone; they stay
	// there until its lease ends. Nil if it did.
	Left error
	// Etcd is where it was asked, TTL how long its lease lasts.
	Etcd string
	TTL  time.Duration
}

// stepError is one step of a stop.
type stepError struct {
	what string
	err  error
}

func (e *stepError) Error() string { return e.what + ": " + e.err.Error() }

func (e *stepError) Unwrap() error { return e.err }

// Error says what is left in etcd, and names the steps that were cut short for
// another reason than etcd's silence. The cause is said once.
func (e *CutShortError) Error() string {
	var steps []string
	for _, err := range e.Steps {
		cut := errors.Is(err, node.ErrCallsCut)
		late := errors.Is(err, context.DeadlineExceeded) || e.Cause != nil && errors.Is(err, e.Cause)
		if e.Left != nil && late && !cut {
			continue
		}
		text := err.Error()
		if step := (*stepError)(nil); late && errors.As(err, &step) && (cut || e.Cause != nil) {
			text = step.what
			if cut {
				text += ": " + node.ErrCallsCut.Error()
			}
		}
		steps = append(steps, text)
	}
	var texts []string
	if e.Left != nil {
		silent := "did not answer"
		if connect.Refuses(e.Left) || errors.Is(e.Left, rpctypes.ErrAuthFailed) {
			silent = "refused to revoke the lease"
		}
		texts = append(texts, fmt.Sprintf("%s %s: this node's keys stay there until its lease ends (%v)",
			strings.TrimSpace("etcd "+at(e.Etcd)), silent, e.TTL))
	}
	if len(steps) > 0 {
		why := ""
		if e.Cause != nil {
			why = " (" + e.Cause.Error() + ")"
		}
		texts = append(texts, "the stop was cut short"+why+": "+strings.Join(steps, "; "))
	}
	return strings.Join(texts, "; ")
}

func at(place string) string {
	if place == "" {
		return ""
	}
	return "at " + place
}

// Unwrap gives each step's error, and Left.
func (e *CutShortError) Unwrap() []error {
	if e.Left == nil {
		return e.Steps
	}
	return append(slices.Clone(e.Steps), e.Left)
}
