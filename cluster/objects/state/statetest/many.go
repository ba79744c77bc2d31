package statetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
)

// rounds is the number of races: a store that reads and then writes fails only in some of them. participants is the
// number of participants.
const (
	rounds       = 20
	participants = 8
)

// runTogether runs f many times concurrently.
func runTogether(f func(i int) error) (errs []error) {
	errs = make([]error, participants)
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			<-begin
			errs[i] = f(i)
		})
	}
	close(begin)
	wg.Wait()
	return errs
}

// checkOneWins checks that of many saves with one version, exactly one succeeds.
func checkOneWins(ctx context.Context, store state.Store) error {
	for round := range rounds {
		ref := state.Ref{Service: testRef.Service, Key: strconv.Itoa(round)}
		r, err := expectLoad(ctx, store, ref, 1, nil)
		if err != nil {
			return err
		}
		won := -1
		for i, err := range runTogether(func(i int) error {
			_, err := store.Save(ctx, ref, state.Write{Version: r.Version, Epoch: 1, Value: fmt.Append(nil, i)})
			return err
		}) {
			switch {
			case err == nil && won >= 0:
				return fmt.Errorf("saves %d and %d have replaced the same version", won, i)
			case err == nil:
				won = i
			case !errors.Is(err, state.ErrConflict):
				return fmt.Errorf("one of many saves: %w", err)
			}
		}
		if won < 0 {
			return errors.New("of many saves with the right version none has replaced it")
		}
		if _, err := expectLoad(ctx, store, ref, 1, fmt.Append(nil, won)); err != nil {
			return err
		}
	}
	return nil
}

// checkLargestWins lets many owners load and then save concurrently. After all loads, only the owner with the
// largest epoch can save.
func checkLargestWins(ctx context.Context, store state.Store) error {
	for round := range rounds {
		ref := state.Ref{Service: testRef.Service, Key: strconv.Itoa(round)}
		claimed := make([]state.Record, participants)
		for i, err := range runTogether(func(i int) (err error) {
			claimed[i], err = store.Load(ctx, ref, int64(i+1))
			return err
		}) {
			if err != nil && (!errors.Is(err, state.ErrFenced) || i == participants-1) {
				return fmt.Errorf("the Load for epoch %d of %d: %w", i+1, participants, err)
			}
		}
		for i, err := range runTogether(func(i int) error {
			_, err := store.Save(ctx, ref, state.Write{Version: claimed[i].Version, Epoch: int64(i + 1),
				Value: fmt.Append(nil, i)})
			return err
		}) {
			want := state.ErrFenced
			if i == participants-1 {
				want = nil
			}
			if err := expectError(fmt.Sprintf("Save for epoch %d of %d", i+1, participants), err, want); err != nil {
				return err
			}
		}
		if _, err := expectLoad(ctx, store, ref, participants, fmt.Append(nil, participants-1)); err != nil {
			return err
		}
	}
	return nil
}

// lossyStore carries out each save, but loses the answer to every third.
type lossyStore struct {
	state.Store
	saves atomic.Int64
}

var errLost = errors.New("the answer was lost")

func (l *lossyStore) Save(ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
	version, err := l.Store.Save(ctx, ref, w)
	if err == nil && l.saves.Add(1)%3 == 0 {
		return 0, errLost
	}
	return version, err
}

// objectOwner is one activation.
type objectOwner struct {
	ref   state.Ref
	epoch int64
}

func (o objectOwner) Service() string { return o.ref.Service }
func (o objectOwner) Key() string     { return o.ref.Key }
func (o objectOwner) Epoch() int64    { return o.epoch }

const (
	objects    = 2
	increments = 15
)

// checkOnceEach lets workers take objects from each other and increment them. Each repeats a call until it gets a
// reply.
func checkOnceEach(ctx context.Context, store state.Store) error {
	w := &objectWorld{store: &lossyStore{Store: store}}
	replies := [participants][]int64{} // by worker, then by call
	for _, err := range runTogether(func(i int) error {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		for n := range increments {
			ref := state.Ref{Service: testRef.Service, Key: strconv.Itoa((i + n) % objects)}
			reply, err := w.increment(ctx, ref, r, fmt.Sprintf("%d-%d", i, n))
			if err != nil {
				return err
			}
			replies[i] = append(replies[i], reply)
		}
		return nil
	}) {
		if err != nil {
			return err
		}
	}
	for object := range objects {
		seen := map[int64]bool{}
		for i := range participants {
			for n, reply := range replies[i] {
				if (i+n)%objects != object {
					continue
				}
				if seen[reply] {
					return fmt.Errorf("two calls have brought object %d to %d", object, reply)
				}
				seen[reply] = true
			}
		}
		ref := state.Ref{Service: testRef.Service, Key: strconv.Itoa(object)}
		s, err := state.Load(ctx, store, objectOwner{ref, w.epoch.Add(1)}, &wrapperspb.Int64Value{})
		if err != nil {
			return err
		}
		if got := s.Value().Value; got != int64(len(seen)) {
			return fmt.Errorf("object %d is at %d, after %d calls", object, got, len(seen))
		}
	}
	return nil
}

// objectWorld holds the objects that move between the workers.
type objectWorld struct {
	store  state.Store
	epoch  atomic.Int64
	owners sync.Map // of sync.Mutex by object
}

// increment calls the object until it gets a reply.
func (w *objectWorld) increment(ctx context.Context, ref state.Ref, r *rand.Rand, id string) (int64, error) {
	epoch := w.epoch.Load()
	for ctx.Err() == nil {
		if r.IntN(2) == 0 {
			epoch = w.epoch.Add(1)
		}
		reply, err := w.tryIncrement(ctx, ref, epoch, r.IntN(8) > 0, id)
		switch {
		case err == nil:
			return reply.Value, nil
		case errors.Is(err, state.ErrFenced):
			epoch = w.epoch.Add(1)
		case !errors.Is(err, state.ErrConflict) && !errors.Is(err, state.ErrUnavailable) && !errors.Is(err, errLost):
			return 0, err
		}
	}
	return 0, context.Cause(ctx)
}

// tryIncrement activates the object and calls it: as its only owner if alone is set, otherwise concurrently with it.
func (w *objectWorld) tryIncrement(ctx context.Context, ref state.Ref, epoch int64, alone bool,
	id string) (*wrapperspb.Int64Value, error) {
	if alone {
		owned, _ := w.owners.LoadOrStore(ref, &sync.Mutex{})
		owned.(*sync.Mutex).Lock()
		defer owned.(*sync.Mutex).Unlock()
	}
	s, err := state.Load(ctx, w.store, objectOwner{ref, epoch}, &wrapperspb.Int64Value{})
	if err != nil {
		return nil, err
	}
	return state.Do(ctx, s, id, func(context.Context) (*wrapperspb.Int64Value, error) {
		s.Value().Value++
		runtime.Gosched() // others load in the meantime, as over a network
		return wrapperspb.Int64(s.Value().Value), nil
	})
}
