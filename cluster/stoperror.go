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
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/node"
)

// CutShortError is returned by Stop when some of its steps were cut short, or etcd did not answer. Its text is
// one line. errors.Is and errors.As find the error of each step.
type CutShortError struct {
	// Steps holds the errors of the steps that were cut short, in order.
	Steps []error
	// Cause is the cause with which the context of Stop ended, nil if it did not end.
	Cause error
	// Left is the error because of which etcd did not confirm that this node's keys are gone. They stay until its
	// lease ends. It is nil if etcd confirmed.
	Left error
	// Etcd lists the addresses of etcd that were used, and TTL is the time-to-live of the lease.
	Etcd string
	TTL  time.Duration
}

// Error describes the keys left in etcd, and names the steps that were cut short for another reason than etcd's
// silence. The cause appears once.
func (e *CutShortError) Error() string {
	var steps []string
	for _, err := range e.Steps {
		cut := errors.Is(err, node.ErrCallsCut)
		late := errors.Is(err, context.DeadlineExceeded) || e.Cause != nil && errors.Is(err, e.Cause)
		if e.Left != nil && late && !cut {
			continue
		}
		text := err.Error()
		if step := (*member.StepError)(nil); late && errors.As(err, &step) && (cut || e.Cause != nil) {
			text = step.Step
			if cut {
				text += ": " + node.ErrCallsCut.Error()
			}
		}
		steps = append(steps, text)
	}
	var texts []string
	if e.Left != nil {
		silent := "did not answer"
		if connect.LacksPermission(e.Left) || errors.Is(e.Left, rpctypes.ErrAuthFailed) {
			silent = "refused to revoke the lease"
		}
		texts = append(texts, fmt.Sprintf("%s %s: this node's keys stay there until its lease ends (%v)",
			strings.TrimSpace("etcd "+atPlace(e.Etcd)), silent, e.TTL))
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

func atPlace(place string) string {
	if place == "" {
		return ""
	}
	return "at " + place
}

// Unwrap returns each step's error, and Left.
func (e *CutShortError) Unwrap() []error {
	if e.Left == nil {
		return e.Steps
	}
	return append(slices.Clone(e.Steps), e.Left)
}
