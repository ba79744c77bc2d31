package electortest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/elector"
)

// sampleLease returns a lease with values that are easily damaged in every field.
func sampleLease() elector.Lease {
	return elector.Lease{
		HolderIdentity: `ä "b" \ 'c'/%2F` + "\n", HolderInstance: "7", LeaseDuration: 1500*time.Millisecond + 1,
		AcquireTime:       time.Date(2031, 2, 3, 4, 5, 6, 789_123_000, time.UTC),
		RenewTime:         time.Date(1999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
		LeaderTransitions: 1<<53 + 1,
	}
}

// compareLeases returns an error unless got equals want, as far as a store must preserve it.
func compareLeases(got, want elector.Lease) error {
	var wrong []error
	field := func(name string, same bool, got, want any) {
		if !same {
			wrong = append(wrong, fmt.Errorf("%s is %v, written was %v", name, got, want))
		}
	}
	field("HolderIdentity", got.HolderIdentity == want.HolderIdentity, got.HolderIdentity, want.HolderIdentity)
	field("HolderInstance", got.HolderInstance == want.HolderInstance, got.HolderInstance, want.HolderInstance)
	field("LeaseDuration", got.LeaseDuration == want.LeaseDuration, got.LeaseDuration, want.LeaseDuration)
	field("AcquireTime", got.AcquireTime.Equal(want.AcquireTime), got.AcquireTime, want.AcquireTime)
	field("RenewTime", got.RenewTime.Equal(want.RenewTime), got.RenewTime, want.RenewTime)
	field("LeaderTransitions", got.LeaderTransitions == want.LeaderTransitions,
		got.LeaderTransitions, want.LeaderTransitions)
	if got.Version == "" {
		wrong = append(wrong, errors.New("the version is empty"))
	}
	return errors.Join(wrong...)
}

// expectError returns an error unless err matches want.
func expectError(what string, err, want error) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("%s: the error is %w, not %w", what, orNil(err), want)
	}
	return nil
}

func orNil(err error) error {
	if err == nil {
		return errors.New("nil")
	}
	return err
}

func checkNoRecord(ctx context.Context, store elector.LeaseStore) error {
	_, err := store.GetLease(ctx)
	_, missing := store.UpdateLease(ctx, elector.Lease{Version: "1"})
	_, unnamed := store.UpdateLease(ctx, elector.Lease{})
	_, again := store.GetLease(ctx)
	return errors.Join(expectError("GetLease without a record", err, elector.ErrNotFound),
		expectError("UpdateLease without a record", missing, elector.ErrConflict),
		expectError("UpdateLease without a record or a version", unnamed, elector.ErrConflict),
		expectError("GetLease after that", again, elector.ErrNotFound))
}

// checkRoundTrip writes and reads records with all kinds of values, including zero values.
func checkRoundTrip(ctx context.Context, store elector.LeaseStore) error {
	long := sampleLease()
	long.HolderIdentity = strings.Repeat("長", 200)
	local := sampleLease()
	local.RenewTime = local.RenewTime.In(time.FixedZone("", 3600))
	version := ""
	for i, want := range []elector.Lease{sampleLease(), {}, long, local, {LeaseDuration: 1<<63 - 1,
		LeaderTransitions: 1<<63 - 1}} {
		var wrote elector.Lease
		var err error
		if i == 0 {
			wrote, err = store.CreateLease(ctx, want)
		} else {
			want.Version = version
			wrote, err = store.UpdateLease(ctx, want)
		}
		if err != nil {
			return fmt.Errorf("write %+v: %w", want, err)
		}
		read, err := store.GetLease(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(compareLeases(wrote, want), compareLeases(read, want)); err != nil {
			return err
		}
		if read.Version != wrote.Version || read.Version == version {
			return fmt.Errorf("version %q was replaced, %q returned and %q read", version, wrote.Version, read.Version)
		}
		version = read.Version
	}
	return nil
}

func checkCreatedOnce(ctx context.Context, store elector.LeaseStore) error {
	first, err := store.CreateLease(ctx, sampleLease())
	if err != nil {
		return err
	}
	_, twice := store.CreateLease(ctx, elector.Lease{HolderIdentity: "another", Version: first.Version})
	_, unnamed := store.UpdateLease(ctx, elector.Lease{HolderIdentity: "another"})
	read, err := store.GetLease(ctx)
	if err != nil {
		return err
	}
	return errors.Join(expectError("CreateLease of a record that is there", twice, elector.ErrExists),
		expectError("UpdateLease without a version", unnamed, elector.ErrConflict), compareLeases(read, sampleLease()))
}

// checkReplacedOnce tries to replace versions that the record no longer has, among them one with the same content as
// the current one.
func checkReplacedOnce(ctx context.Context, store elector.LeaseStore) error {
	first, err := store.CreateLease(ctx, sampleLease())
	if err != nil {
		return err
	}
	other := first
	other.HolderIdentity = "another"
	second, err := store.UpdateLease(ctx, other)
	if err != nil {
		return err
	}
	_, stale := store.UpdateLease(ctx, other)
	back := sampleLease()
	back.Version = second.Version
	third, err := store.UpdateLease(ctx, back)
	if err != nil {
		return err
	}
	_, same := store.UpdateLease(ctx, other)
	other.Version = "no version"
	_, none := store.UpdateLease(ctx, other)
	read, err := store.GetLease(ctx)
	if err == nil && read.Version != third.Version {
		err = fmt.Errorf("version %q was written and %q is there", third.Version, read.Version)
	}
	return errors.Join(expectError("UpdateLease of the version before", stale, elector.ErrConflict),
		expectError("UpdateLease of a version whose content is there again", same, elector.ErrConflict),
		expectError("UpdateLease of what no version is called", none, elector.ErrConflict), err,
		compareLeases(read, sampleLease()))
}

// checkNewVersions writes the same record again and again.
func checkNewVersions(ctx context.Context, store elector.LeaseStore) error {
	lease, err := store.CreateLease(ctx, sampleLease())
	seen := map[string]bool{}
	for range 50 {
		if err != nil {
			return err
		}
		if seen[lease.Version] {
			return fmt.Errorf("version %q was there before", lease.Version)
		}
		seen[lease.Version] = true
		lease, err = store.UpdateLease(ctx, lease)
	}
	return err
}

// checkContextEnded checks that calls with an ended context neither wait nor write.
func checkContextEnded(ctx context.Context, store elector.LeaseStore) error {
	first, err := store.CreateLease(ctx, sampleLease())
	if err != nil {
		return err
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, get := store.GetLease(gone)
	_, create := store.CreateLease(gone, sampleLease())
	_, update := store.UpdateLease(gone, first)
	read, err := store.GetLease(ctx)
	if err == nil && read.Version != first.Version {
		err = errors.New("UpdateLease with a context that ended has written")
	}
	return errors.Join(expectError("GetLease with a context that ended", get, context.Canceled),
		expectError("CreateLease with a context that ended", create, context.Canceled),
		expectError("UpdateLease with a context that ended", update, context.Canceled), err)
}
