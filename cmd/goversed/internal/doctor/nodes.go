package doctor

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/node"
)

const (
	// mostNodes limits the nodes that are asked, and atOnce the concurrent requests.
	mostNodes = 256
	atOnce    = 16
)

// nodes asks each member for its identity and status. Left is the number of members that were not asked.
func (x *examiner) nodes(ctx context.Context, members []*state.Member) (out []diagnosis.Node, left int) {
	if left = max(0, len(members)-mostNodes); left > 0 {
		members = members[:mostNodes]
	}
	out = make([]diagnosis.Node, len(members))
	each(len(members), func(i int) { out[i] = x.node(ctx, members[i]) })
	return out, left
}

// each calls do with the numbers from 0 to n-1, at most atOnce at a time. It returns when all calls have
// returned.
func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}

func (x *examiner) node(ctx context.Context, m *state.Member) (out diagnosis.Node) {
	out.Address = m.Address
	var wg sync.WaitGroup
	defer wg.Wait()
	if m.HTTPAddress != "" {
		wg.Go(func() { out.HTTP = x.status(ctx, m.HTTPAddress) })
	}
	asking, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	said, err := node.Identify(asking, m.Address, x.Options...)
	out.Answer = answer(err)
	switch {
	case err != nil && out.Answer != diagnosis.Refused:
		out.Detail = cause(err)
	case err == nil && said.InstanceID != m.InstanceID:
		out.Answer = diagnosis.Another
	}
	out.Instance = said.InstanceID
	return out
}

// answer classifies an error of Identify.
func answer(err error) diagnosis.Answer {
	name, unknown := errors.AsType[*net.DNSError](err)
	switch {
	case err == nil:
		return diagnosis.Expected
	case errors.Is(err, node.ErrRefused):
		return diagnosis.Refused
	case errors.Is(err, node.ErrNotNode):
		return diagnosis.NotNode
	case unknown && name.IsNotFound:
		return diagnosis.Unresolved
	}
	return diagnosis.Silent
}

// cause returns the innermost error, without the advice of package node, because findings have their own
// remedies.
func cause(err error) string {
	for {
		many, ok := err.(interface{ Unwrap() []error })
		if !ok {
			return why(err)
		}
		all := many.Unwrap()
		if len(all) < 2 {
			return why(err)
		}
		err = all[len(all)-1]
	}
}
