package electortest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/elector"
)

const (
	candidates = 8
	rounds     = 25
)

// raceCandidates runs try for many candidates concurrently. It returns an error unless exactly one succeeds, the others
// fail with lost, and the record is that of the winner.
func raceCandidates(ctx context.Context, store elector.LeaseStore, lost error,
	try func(candidate int) (elector.Lease, error)) error {
	begin := make(chan struct{})
	var mu sync.Mutex
	var won []elector.Lease
	var wrong []error
	var wg sync.WaitGroup
	for i := range candidates {
		wg.Go(func() {
			<-begin
			lease, err := try(i)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, lease)
			} else if err := expectError("who came too late", err, lost); err != nil {
				wrong = append(wrong, err)
			}
		})
	}
	close(begin)
	wg.Wait()
	if len(won) != 1 {
		return errors.Join(append(wrong, fmt.Errorf("%d of %d candidates won one vacancy", len(won), candidates))...)
	}
	read, err := store.GetLease(ctx)
	if err == nil && read != won[0] && (read.Version != won[0].Version || compareLeases(read, won[0]) != nil) {
		err = fmt.Errorf("the winner wrote %+v, and the record is %+v", won[0], read)
	}
	return errors.Join(append(wrong, err)...)
}

// checkOneWins lets many candidates replace the same version, round after round.
func checkOneWins(ctx context.Context, store elector.LeaseStore) error {
	if _, err := store.CreateLease(ctx, elector.Lease{}); err != nil {
		return err
	}
	for round := range rounds {
		vacancy, err := store.GetLease(ctx)
		if err != nil {
			return err
		}
		err = raceCandidates(ctx, store, elector.ErrConflict, func(i int) (elector.Lease, error) {
			mine := vacancy
			mine.HolderIdentity, mine.LeaderTransitions = fmt.Sprint(i), vacancy.LeaderTransitions+1
			return store.UpdateLease(ctx, mine)
		})
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	return nil
}

func checkOneCreates(ctx context.Context, store elector.LeaseStore) error {
	return raceCandidates(ctx, store, elector.ErrExists, func(i int) (elector.Lease, error) {
		return store.CreateLease(ctx, elector.Lease{HolderIdentity: fmt.Sprint(i)})
	})
}

// checkIncrements lets many candidates read the record and increment its number several times. No increment may be
// lost.
func checkIncrements(ctx context.Context, store elector.LeaseStore) error {
	if _, err := store.CreateLease(ctx, elector.Lease{}); err != nil {
		return err
	}
	const each = 10
	failures := make([]error, candidates)
	var wg sync.WaitGroup
	for i := range candidates {
		wg.Go(func() {
			for done := 0; done < each && failures[i] == nil; {
				lease, err := store.GetLease(ctx)
				if err == nil {
					lease.LeaderTransitions++
					_, err = store.UpdateLease(ctx, lease)
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, elector.ErrConflict):
					failures[i] = err
				}
			}
		})
	}
	wg.Wait()
	lease, err := store.GetLease(ctx)
	if err == nil && lease.LeaderTransitions != candidates*each {
		err = fmt.Errorf("%d increments were made and %d are there", candidates*each, lease.LeaderTransitions)
	}
	return errors.Join(append(failures, err)...)
}

// errNoWatch is returned if the store is no LeaseWatcher or cannot be watched, so there is nothing to check.
var errNoWatch = errors.New("the store cannot be watched")

// checkWatch checks stores that are a LeaseWatcher.
func checkWatch(ctx context.Context, store elector.LeaseStore) error {
	watcher, ok := store.(elector.LeaseWatcher)
	if !ok {
		return errNoWatch
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	changed, ended := make(chan struct{}, 100), make(chan error, 1) // changed has room for more signals than expected
	watching.Go(func() {
		ended <- watcher.Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	})
	await := func(what string) error {
		select {
		case <-changed:
			return nil
		case err := <-ended:
			return fmt.Errorf("the watch ended before %s: %w", what, cmp.Or(err, errNoWatch))
		case <-time.After(signalPatience):
			return fmt.Errorf("the watch did not signal %s", what)
		}
	}
	if err := await("its begin"); err != nil {
		return err
	}
	lease, err := store.CreateLease(ctx, sampleLease())
	for _, what := range []string{"the first holder", "a release", "the next holder"} {
		if err != nil {
			return err
		}
		if err = await(what); err != nil {
			return err
		}
		lease.HolderIdentity, lease.HolderInstance = "", ""
		if what == "a release" {
			lease.HolderIdentity, lease.HolderInstance = "b", "2"
		}
		lease, err = store.UpdateLease(ctx, lease)
	}
	cancel()
	if watched := <-ended; err == nil && watched == nil {
		err = errors.New("the watch returned nil when its context had ended")
	}
	return err
}
