package doctor

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/peer"
	"github.com/goverse/goverse/internal/state"
)

const (
	// maxNodes limits the nodes that are asked, and maxConcurrent the concurrent requests.
	maxNodes      = 256
	maxConcurrent = 16
)

// askNodes asks each member for its identity and status. Left is the number of members that were not asked.
func (x *examiner) askNodes(ctx context.Context, members []*state.Member) (out []diagnosis.Node, left int) {
	if left = max(0, len(members)-maxNodes); left > 0 {
		members = members[:maxNodes]
	}
	out = make([]diagnosis.Node, len(members))
	runConcurrently(len(members), func(i int) { out[i] = x.askNode(ctx, members[i]) })
	return out, left
}

// runConcurrently calls do with the numbers from 0 to n-1, at most maxConcurrent at a time. It returns when all calls
// have returned.
func runConcurrently(n int, do func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrent)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}

func (x *examiner) askNode(ctx context.Context, m *state.Member) (out diagnosis.Node) {
	out.Address = m.Address
	var wg sync.WaitGroup
	defer wg.Wait()
	if m.HTTPAddress != "" {
		wg.Go(func() { out.HTTP = x.readStatus(ctx, m.HTTPAddress) })
	}
	asking, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	said, err := peer.Identify(asking, m.Address, x.Options...)
	out.AnswerKind = classifyAnswer(err)
	switch {
	case err != nil && out.AnswerKind != diagnosis.Refused:
		out.Detail = innermostError(err)
	case err == nil && said.InstanceID != m.InstanceID:
		out.AnswerKind = diagnosis.Another
	}
	out.Instance = said.InstanceID
	return out
}

// classifyAnswer classifies an error of Identify.
func classifyAnswer(err error) diagnosis.AnswerKind {
	name, unknown := errors.AsType[*net.DNSError](err)
	switch {
	case err == nil:
		return diagnosis.Expected
	case errors.Is(err, peer.ErrRefused):
		return diagnosis.Refused
	case errors.Is(err, peer.ErrNotNode):
		return diagnosis.NotNode
	case unknown && name.IsNotFound:
		return diagnosis.Unresolved
	}
	return diagnosis.Silent
}

// innermostError returns the innermost error, without the advice of package node, because findings have their own
// remedies.
func innermostError(err error) string {
	for {
		many, ok := err.(interface{ Unwrap() []error })
		if !ok {
			return findingText(err)
		}
		all := many.Unwrap()
		if len(all) < 2 {
			return findingText(err)
		}
		err = all[len(all)-1]
	}
}
