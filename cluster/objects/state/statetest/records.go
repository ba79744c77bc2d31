package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goverse/goverse/cluster/objects/state"
)

func checkNothing(ctx context.Context, store state.Store) error {
	if err := expectNoReply(ctx, store, testRef, "1", "of an object that there never was"); err != nil {
		return err
	}
	_, err := store.Save(ctx, testRef, state.Write{Epoch: 1, Value: bytesOf("a")})
	if err := expectError("Save of an object that was never loaded", err, state.ErrConflict); err != nil {
		return err
	}
	_, err = expectLoad(ctx, store, testRef, 1, nil)
	return err
}

func checkRoundTrip(ctx context.Context, store state.Store) error {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	r, err := expectLoad(ctx, store, testRef, 1, nil)
	version := r.Version
	for _, value := range [][]byte{bytesOf("a"), all, bytes.Repeat(all, 1<<10), {}, bytesOf("b"), {0}} {
		if err != nil {
			return err
		}
		if version, err = store.Save(ctx, testRef, state.Write{Version: version, Epoch: 1, Value: value}); err != nil {
			return fmt.Errorf("the Save: %w", err)
		}
		if r, err = expectLoad(ctx, store, testRef, 1, value); err == nil {
			version = r.Version
		}
	}
	if err == nil {
		_, err = store.Save(ctx, testRef, state.Write{Version: version, Epoch: 1}) // a nil value is an empty state
	}
	if err == nil {
		_, err = expectLoad(ctx, store, testRef, 1, []byte{})
	}
	return err
}

// checkFenced simulates a former owner that was paused after it had loaded and saved.
func checkFenced(ctx context.Context, store state.Store) error {
	old, err := expectLoad(ctx, store, testRef, 5, nil)
	if err != nil {
		return err
	}
	v, err := store.Save(ctx, testRef, state.Write{Version: old.Version, Epoch: 5, Value: bytesOf("a")})
	if err != nil {
		return fmt.Errorf("the Save: %w", err)
	}
	now, err := expectLoad(ctx, store, testRef, 6, bytesOf("a"))
	if err != nil {
		return err
	}
	_, err = store.Save(ctx, testRef, state.Write{Version: v, Epoch: 5, Value: bytesOf("paused")})
	if err := expectError("Save with an epoch that was overtaken", err, state.ErrFenced); err != nil {
		return err
	}
	_, err = store.Save(ctx, testRef, state.Write{Version: now.Version, Epoch: 5, Value: bytesOf("paused")})
	if err := expectError("Save with an epoch that was overtaken, and the version that stands", err,
		state.ErrFenced); err != nil {
		return err
	}
	if _, err = store.Save(ctx, testRef, state.Write{Version: now.Version, Epoch: 6, Value: bytesOf("b")}); err != nil {
		return fmt.Errorf("the Save of the owner, after a refusal: %w", err)
	}
	_, err = expectLoad(ctx, store, testRef, 6, bytesOf("b"))
	return err
}

// checkFencedFirst simulates two owners that both load before anything was saved.
func checkFencedFirst(ctx context.Context, store state.Store) error {
	old, err := expectLoad(ctx, store, testRef, 1, nil)
	if err != nil {
		return err
	}
	now, err := expectLoad(ctx, store, testRef, 2, nil)
	if err != nil {
		return err
	}
	for _, version := range []int64{old.Version, 0} {
		_, err = store.Save(ctx, testRef, state.Write{Version: version, Epoch: 1, Value: bytesOf("paused")})
		if err := expectError("the first Save, with an epoch that was overtaken", err, state.ErrFenced); err != nil {
			return err
		}
	}
	if _, err = store.Save(ctx, testRef, state.Write{Version: now.Version, Epoch: 2, Value: bytesOf("b")}); err != nil {
		return fmt.Errorf("the first Save of the owner: %w", err)
	}
	_, err = expectLoad(ctx, store, testRef, 2, bytesOf("b"))
	return err
}

func checkClaims(ctx context.Context, store state.Store) error {
	const large = 1<<62 + 1 // a float cannot hold it exactly
	r, err := expectLoad(ctx, store, testRef, large, nil)
	if err != nil {
		return err
	}
	for _, smaller := range []int64{1, large - 1} {
		_, err = store.Load(ctx, testRef, smaller)
		if err := expectError("Load with a smaller epoch", err, state.ErrFenced); err != nil {
			return err
		}
	}
	if _, err := store.Save(ctx, testRef, state.Write{Version: r.Version, Epoch: large, Value: bytesOf("a")}); err != nil {
		return fmt.Errorf("the Save after a claim that was refused: %w", err)
	}
	_, err = expectLoad(ctx, store, testRef, large, bytesOf("a"))
	return err
}

// checkReclaimed checks that a save sent before a Load is refused after it, even with the same epoch.
func checkReclaimed(ctx context.Context, store state.Store) error {
	before, err := expectLoad(ctx, store, testRef, 3, nil)
	if err != nil {
		return err
	}
	after, err := expectLoad(ctx, store, testRef, 3, nil)
	if err != nil {
		return err
	}
	_, err = store.Save(ctx, testRef, state.Write{Version: before.Version, Epoch: 3, Value: bytesOf("delayed")})
	if err := expectError("Save with the version from before a Load", err, state.ErrConflict); err != nil {
		return err
	}
	_, err = store.Save(ctx, testRef, state.Write{Version: after.Version, Epoch: 3, Value: bytesOf("a")})
	return expectError("Save after the last Load", err, nil)
}

func checkReplacedOnce(ctx context.Context, store state.Store) error {
	r, err := expectLoad(ctx, store, testRef, 3, nil)
	if err != nil {
		return err
	}
	w := state.Write{Version: r.Version, Epoch: 3, Value: bytesOf("a")}
	if _, err := store.Save(ctx, testRef, w); err != nil {
		return fmt.Errorf("the Save: %w", err)
	}
	w.Value = bytesOf("again")
	_, err = store.Save(ctx, testRef, w)
	if err := expectError("Save with a version that was replaced", err, state.ErrConflict); err != nil {
		return err
	}
	w.Epoch = 4
	_, err = store.Save(ctx, testRef, w)
	if err := expectError("Save with a version that was replaced, and a larger epoch", err,
		state.ErrConflict); err != nil {
		return err
	}
	_, err = expectLoad(ctx, store, testRef, 3, bytesOf("a"))
	return err
}

func checkNewVersions(ctx context.Context, store state.Store) error {
	seen := map[int64]bool{0: true} // no record has version 0
	is := func(version int64) error {
		if seen[version] {
			return fmt.Errorf("version %d was there before", version)
		}
		seen[version] = true
		return nil
	}
	for round := range 20 {
		r, err := store.Load(ctx, testRef, 1)
		if err != nil {
			return fmt.Errorf("the Load: %w", err)
		}
		w := state.Write{Version: r.Version, Epoch: 1, Value: bytesOf("a"), Delete: round%3 == 2}
		version, err := store.Save(ctx, testRef, w)
		if err := errors.Join(err, is(r.Version), is(version)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// checkNothingChanged checks that a refused save stores neither the state nor the reply.
func checkNothingChanged(ctx context.Context, store state.Store) error {
	old, err := expectLoad(ctx, store, testRef, 1, nil)
	if err != nil {
		return err
	}
	for _, epoch := range []int64{1, 2} { // a conflict, and a fence
		if _, err := expectLoad(ctx, store, testRef, epoch, nil); err != nil {
			return err
		}
		for _, remove := range []bool{false, true} {
			_, err = store.Save(ctx, testRef, state.Write{Version: old.Version, Epoch: 1, Value: bytesOf("a"), Delete: remove,
				RequestID: "id", Reply: bytesOf("done")})
			if err == nil {
				return errors.New("the Save was not refused")
			}
		}
		if err := expectNoReply(ctx, store, testRef, "id", "of a save that was refused"); err != nil {
			return err
		}
	}
	_, err = expectLoad(ctx, store, testRef, 2, nil)
	return err
}

// checkNames checks that names of all kinds are kept apart.
func checkNames(ctx context.Context, store state.Store) error {
	all := string(bytes.Join([][]byte{{0, 1, 2, '\n', '"', '\'', '\\', '%', '_', '/', 0xff, 0xfe, 0}}, nil))
	refs := []state.Ref{{Service: "a", Key: "b/c"}, {Service: "a/b", Key: "c"}, {Service: "a", Key: "b"},
		{Service: "a", Key: "b\x00"}, {Service: "a", Key: "\x00"}, {Service: "a", Key: all}, {Service: "a", Key: "%2F"},
		{Service: "a", Key: "/"}, {Service: "a", Key: ".."}, {Service: "a", Key: "B"}, {Service: "a", Key: " b"},
		{Service: "Grüße.世界", Key: "日本"}, {Service: "Grüße.世界", Key: "e\u0301"}, {Service: "Grüße.世界", Key: "é"},
		{Service: strings.Repeat("s", 512), Key: strings.Repeat("\xf0", 1024)}}
	for i, ref := range refs {
		r, err := expectLoad(ctx, store, ref, 1, nil)
		if err != nil {
			return err
		}
		_, err = store.Save(ctx, ref, state.Write{Version: r.Version, Epoch: 1, Value: fmt.Append(nil, i),
			RequestID: "id", Reply: fmt.Append(nil, i)})
		if err != nil {
			return fmt.Errorf("the Save of %v: %w", ref, err)
		}
	}
	for i, ref := range refs {
		if _, err := expectLoad(ctx, store, ref, 1, fmt.Append(nil, i)); err != nil {
			return err
		}
		if err := expectReply(ctx, store, ref, "id", fmt.Append(nil, i)); err != nil {
			return err
		}
	}
	for _, bad := range []state.Ref{{}, {Service: "a"}, {Key: "b"}, {Service: "\xff", Key: "b"},
		{Service: "a\x00", Key: "b"}, {Service: "a", Key: strings.Repeat("k", 1025)}} {
		_, err := store.Load(ctx, bad, 1)
		if err := expectError(fmt.Sprintf("Load of %v", bad), err, state.ErrBadRef); err != nil {
			return err
		}
	}
	return nil
}

// checkSlicesApart checks that the store shares no slices with its caller, neither arguments nor results.
func checkSlicesApart(ctx context.Context, store state.Store) error {
	r, err := expectLoad(ctx, store, testRef, 1, nil)
	if err != nil {
		return err
	}
	value, reply := bytesOf("value"), bytesOf("reply")
	_, err = store.Save(ctx, testRef, state.Write{Version: r.Version, Epoch: 1, Value: value, RequestID: "id",
		Reply: reply})
	if err != nil {
		return fmt.Errorf("the Save: %w", err)
	}
	copy(value, "xxxxx")
	copy(reply, "xxxxx")
	for range 2 {
		if r, err = expectLoad(ctx, store, testRef, 1, bytesOf("value")); err != nil {
			return err
		}
		copy(r.Value, "yyyyy")
		if err := expectReply(ctx, store, testRef, "id", bytesOf("reply")); err != nil {
			return err
		}
	}
	return nil
}

// checkContextEnded checks that calls with an ended context neither wait nor write.
func checkContextEnded(ctx context.Context, store state.Store) error {
	r, err := expectLoad(ctx, store, testRef, 1, nil)
	if err != nil {
		return err
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, load := store.Load(gone, testRef, 2)
	_, save := store.Save(gone, testRef, state.Write{Version: r.Version, Epoch: 1, Value: bytesOf("a"), RequestID: "id"})
	_, _, reply := store.Reply(gone, testRef, "id")
	stored := expectNoReply(ctx, store, testRef, "id", "of a save whose context had ended")
	_, still := expectLoad(ctx, store, testRef, 1, nil)
	return errors.Join(expectError("Load with a context that ended", load, context.Canceled),
		expectError("Save with a context that ended", save, context.Canceled),
		expectError("Reply with a context that ended", reply, context.Canceled), stored, still)
}
