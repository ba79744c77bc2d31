package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/httpapi"
)

const (
	trioSize = 3
	asking   = time.Millisecond // interval between two polls of a survivor's status
	settling = 30 * time.Second // limit for the trio to be complete again
)

// trio is a cluster of three members with default settings.
type trio struct{ daemons }

// startTrio starts a trio. It returns the trio also with an error; the caller must stop it.
func startTrio(ctx context.Context, g *goversed, etcd string) (*trio, error) {
	t := &trio{daemons{g: g, etcd: etcd}}
	if err := t.add(trioSize); err != nil {
		return t, err
	}
	_, err := t.settled(ctx)
	return t, err
}

// settled waits until all three are queued, agree on the queue, and watch each other. It returns them in the
// order of the queue, the leader first.
func (t *trio) settled(ctx context.Context) ([]*member, error) {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		queue, err := t.look(ctx)
		if err == nil {
			return queue, nil
		}
		rest(ctx, 5*time.Millisecond)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the three nodes are not whole within %v: %w", settling, err)
		}
	}
}

func (t *trio) look(ctx context.Context) ([]*member, error) {
	var first []string
	for _, m := range t.members {
		st, err := m.status(ctx)
		switch {
		case err != nil:
			return nil, err
		case first == nil:
			first = st.Queue
		}
		if !st.ClusterReady || len(st.Queue) != trioSize || len(st.Nodes) != trioSize || !slices.Equal(st.Queue, first) ||
			st.IsLeader != (st.Queue[0] == m.address) || st.Crashes.Watches != trioSize-1 {
			return nil, fmt.Errorf("%s shows %+v", m.address, st)
		}
	}
	var queue []*member
	for _, address := range first {
		queue = append(queue, t.members[slices.IndexFunc(t.members, func(m *member) bool { return m.address == address })])
	}
	return queue, nil
}

// accession is the first answer of a process that leads.
type accession struct {
	by     *member
	status httpapi.Status
	at     time.Time
	// unknown is the possible error of at: the member may have begun to lead that much earlier. It is the time
	// since the last request that got a negative answer was sent.
	unknown time.Duration
}

// awaitLeader polls the members until one leads. At the time since, none led. It returns an error if two lead.
func awaitLeader(ctx context.Context, members []*member, since time.Time) (accession, error) {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	type result struct {
		accession
		err error
	}
	results := make(chan result)
	for _, m := range members {
		go func() { // received below
			a, err := m.awaitLead(ctx, since)
			results <- result{a, err}
		}()
	}
	var first accession
	var errs, failed []error
	for range members {
		r := <-results
		switch {
		case first.by != nil && r.err == nil:
			errs = append(errs, fmt.Errorf("%s and %s both say that they lead", first.by.address, r.by.address))
		case first.by != nil: // cancelled above
		case r.err != nil:
			failed = append(failed, r.err)
		default:
			first = r.accession
			cancel()
		}
	}
	if first.by == nil {
		errs = failed
	}
	return first, errors.Join(errs...)
}

func (m *member) awaitLead(ctx context.Context, since time.Time) (accession, error) {
	tick := time.NewTicker(asking)
	defer tick.Stop()
	no := since
	for {
		sent := time.Now()
		st, err := m.status(ctx)
		if err != nil {
			return accession{}, fmt.Errorf("ask %s whether it leads: %w", m.address, err)
		}
		if st.IsLeader {
			now := time.Now()
			return accession{by: m, status: st, at: now, unknown: now.Sub(no)}, nil
		}
		no = sent
		select {
		case <-tick.C:
		case <-ctx.Done():
			return accession{}, ctx.Err()
		}
	}
}
