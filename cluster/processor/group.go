package processor

import (
	"context"
	"errors"
	"sync"
)

// Runner is a processor with any type of events.
type Runner interface {
	// Run blocks until ctx ends; see [Processor.Run].
	Run(ctx context.Context) error
	// Status returns the current status. It does not block.
	Status() Status
}

// Group is a group of processors that run together.
type Group []Runner

// Run runs all processors until ctx ends or one returns an error, which ends the others. It returns their
// errors when all have returned.
func (g Group) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(g))
	var wg sync.WaitGroup
	for i, r := range g {
		wg.Go(func() {
			if errs[i] = r.Run(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Status returns the status of each processor, in their order. It does not block.
func (g Group) Status() []Status {
	all := make([]Status, len(g))
	for i, r := range g {
		all[i] = r.Status()
	}
	return all
}

// Partitions returns a processor for each partition of a source. By default, each runs on the node that serves
// the shard of the processor's name, so the partitions spread over the nodes and move when nodes come and go.
// set sets the Source of each processor, and other fields that differ. The default name is cfg.Name/partition,
// and the default LeaderLock is [Shard]. All nodes run the same group.
func Partitions[E any](cfg Config[E], in Shards, partitions []string,
	set func(partition string, cfg *Config[E])) (Group, error) {
	var g Group
	for _, partition := range partitions {
		own := cfg
		own.Name = cfg.Name + "/" + partition
		own.LeaderLock = nil
		set(partition, &own)
		if own.LeaderLock == nil {
			own.LeaderLock = Shard(in, own.Name)
		}
		p, err := New(own)
		if err != nil {
			return nil, err
		}
		g = append(g, p)
	}
	return g, nil
}
