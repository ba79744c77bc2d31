package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goverse/goverse/cluster/objects/state"
)

func nothing(ctx context.Context, store state.Store) error {
	if err := noReply(ctx, store, it, "1", "of an object that there never was"); err != nil {
		return err
	}
	_, err := store.Save(ctx, it, state.Write{Epoch: 1, Value: text("a")})
	if err := is("Save of an object that was never loaded", err, state.ErrConflict); err != nil {
		return err
	}
	_, err = loads(ctx, store, it, 1, nil)
	return err
}

func roundTrip(ctx context.Context, store state.Store) error {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	r, err := loads(ctx, store, it, 1, nil)
	version := r.Version
	for _, value := range [][]byte{text("a"), all, bytes.Repeat(all, 1<<10), {}, text("b"), {0}} {
		if err != nil {
			return err
		}
		if version, err = store.Save(ctx, it, state.Write{Version: version, Epoch: 1, Value: value}); err != nil {
			return fmt.Errorf("the Save: %w", err)
		}
		if r, err = loads(ctx, store, it, 1, value); err == nil {
			version = r.Version
		}
	}
	if err == nil {
		_, err = store.Save(ctx, it, state.Write{Version: version, Epoch: 1}) // a nil value is an empty state
	}
	if err == nil {
		_, err = loads(ctx, store, it, 1, []byte{})
	}
	return err
}

// fenced simulates a former owner that was paused after it had loaded and saved.
func fenced(ctx context.Context, store state.Store) error {
	old, err := loads(ctx, store, it, 5, nil)
	if err != nil {
		return err
	}
	v, err := store.Save(ctx, it, state.Write{Version: old.Version, Epoch: 5, Value: text("a")})
	if err != nil {
		return fmt.Errorf("the Save: %w", err)
	}
	now, err := loads(ctx, store, it, 6, text("a"))
	if err != nil {
		return err
	}
	_, err = store.Save(ctx, it, state.Write{Version: v, Epoch: 5, Value: text("paused")})
	if err := is("Save with an epoch that was overtaken", err, state.ErrFenced); err != nil {
		return err
	}
	_, err = store.Save(ctx, it, state.Write{Version: now.Version, Epoch: 5, Value: text("paused")})
	if err := is("Save with an epoch that was overtaken, and the version that stands", err,
		state.ErrFenced); err != nil {
		return err
	}
	if _, err = store.Save(ctx, it, state.Write{Version: now.Version, Epoch: 6, Value: text("b")}); err != nil {
		return fmt.Errorf("the Save of the owner, after a refusal: %w", err)
	}
	_, err = loads(ctx, store, it, 6, text("b"))
	return err
}

// fencedFirst simulates two owners that both load before anything was saved.
func fencedFirst(ctx context.Context, store state.Store) error {
	old, err := loads(ctx, store, it, 1, nil)
	if err != nil {
		return err
	}
	now, err := loads(ctx, store, it, 2, nil)
	if err != nil {
		return err
	}
	for _, version := range []int64{old.Version, 0} {
		_, err = store.Save(ctx, it, state.Write{Version: version, Epoch: 1, Value: text("paused")})
		if err := is("the first Save, with an epoch that was overtaken", err, state.ErrFenced); err != nil {
			return err
		}
	}
	if _, err = store.Save(ctx, it, state.Write{Version: now.Version, Epoch: 2, Value: text("b")}); err != nil {
		return fmt.Errorf("the first Save of the owner: %w", err)
	}
	_, err = loads(ctx, store, it, 2, text("b"))
	return err
}

func claims(ctx context.Context, store state.Store) error {
	const large = 1<<62 + 1 // a float cannot hold it exactly
	r, err := loads(ctx, store, it, large, nil)
	if err != nil {
		return err
	}
	for _, smaller := range []int64{1, large - 1} {
		_, err = store.Load(ctx, it, smaller)
		if err := is("Load with a smaller epoch", err, state.ErrFenced); err != nil {
			return err
		}
	}
	if _, err := store.Save(ctx, it, state.Write{Version: r.Version, Epoch: large, Value: text("a")}); err != nil {
		return fmt.Errorf("the Save after a claim that was refused: %w", err)
	}
	_, err = loads(ctx, store, it, large, text("a"))
	return err
}

// reclaimed checks that a save sent before a Load is refused after it, even with the same epoch.
func reclaimed(ctx context.Context, store state.Store) error {
	before, err := loads(ctx, store, it, 3, nil)
	if err != nil {
		return err
	}
	after, err := loads(ctx, store, it, 3, nil)
	if err != nil {
		return err
	}
	_, err = store.Save(ctx, it, state.Write{Version: before.Version, Epoch: 3, Value: text("delayed")})
	if err := is("Save with the version from before a Load", err, state.ErrConflict); err != nil {
		return err
	}
	_, err = store.Save(ctx, it, state.Write{Version: after.Version, Epoch: 3, Value: text("a")})
	return is("Save after the last Load", err, nil)
}

func replacedOnce(ctx context.Context, store state.Store) error {
	r, err := loads(ctx, store, it, 3, nil)
	if err != nil {
		return err
	}
	w := state.Write{Version: r.Version, Epoch: 3, Value: text("a")}
	if _, err := store.Save(ctx, it, w); err != nil {
		return fmt.Errorf("the Save: %w", err)
	}
	w.Value = text("again")
	_, err = store.Save(ctx, it, w)
	if err := is("Save with a version that was replaced", err, state.ErrConflict); err != nil {
		return err
	}
	w.Epoch = 4
	_, err = store.Save(ctx, it, w)
	if err := is("Save with a version that was replaced, and a larger epoch", err, state.ErrConflict); err != nil {
		return err
	}
	_, err = loads(ctx, store, it, 3, text("a"))
	return err
}

func newVersions(ctx context.Context, store state.Store) error {
	seen := map[int64]bool{0: true} // no record has version 0
	is := func(version int64) error {
		if seen[version] {
			return fmt.Errorf("version %d was there before", version)
		}
		seen[version] = true
		return nil
	}
	for round := range 20 {
		r, err := store.Load(ctx, it, 1)
		if err != nil {
			return fmt.Errorf("the Load: %w", err)
		}
		w := state.Write{Version: r.Version, Epoch: 1, Value: text("a"), Delete: round%3 == 2}
		version, err := store.Save(ctx, it, w)
		if err := errors.Join(err, is(r.Version), is(version)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// nothingChanged checks that a refused save stores neither the state nor the reply.
func nothingChanged(ctx context.Context, store state.Store) error {
	old, err := loads(ctx, store, it, 1, nil)
	if err != nil {
		return err
	}
	for _, epoch := range []int64{1, 2} { // a conflict, and a fence
		if _, err := loads(ctx, store, it, epoch, nil); err != nil {
			return err
		}
		for _, remove := range []bool{false, true} {
			_, err = store.Save(ctx, it, state.Write{Version: old.Version, Epoch: 1, Value: text("a"), Delete: remove,
				RequestID: "id", Reply: text("done")})
			if err == nil {
				return errors.New("the Save was not refused")
			}
		}
		if err := noReply(ctx, store, it, "id", "of a save that was refused"); err != nil {
			return err
		}
	}
	_, err = loads(ctx, store, it, 2, nil)
	return err
}

// names checks that names of all kinds are kept apart.
func names(ctx context.Context, store state.Store) error {
	all := string(bytes.Join([][]byte{{0, 1, 2, '\n', '"', '\'', '\\', '%', '_', '/', 0xff, 0xfe, 0}}, nil))
	refs := []state.Ref{{Service: "a", Key: "b/c"}, {Service: "a/b", Key: "c"}, {Service: "a", Key: "b"},
		{Service: "a", Key: "b\x00"}, {Service: "a", Key: "\x00"}, {Service: "a", Key: all}, {Service: "a", Key: "%2F"},
		{Service: "a", Key: "/"}, {Service: "a", Key: ".."}, {Service: "a", Key: "B"}, {Service: "a", Key: " b"},
		{Service: "Grüße.世界", Key: "日本"}, {Service: "Grüße.世界", Key: "e\u0301"}, {Service: "Grüße.世界", Key: "é"},
		{Service: strings.Repeat("s", 512), Key: strings.Repeat("\xf0", 1024)}}
	for i, ref := range refs {
		r, err := loads(ctx, store, ref, 1, nil)
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
		if _, err := loads(ctx, store, ref, 1, fmt.Append(nil, i)); err != nil {
			return err
		}
		if err := replied(ctx, store, ref, "id", fmt.Append(nil, i)); err != nil {
			return err
		}
	}
	for _, bad := range []state.Ref{{}, {Service: "a"}, {Key: "b"}, {Service: "\xff", Key: "b"},
		{Service: "a\x00", Key: "b"}, {Service: "a", Key: strings.Repeat("k", 1025)}} {
		_, err := store.Load(ctx, bad, 1)
		if err := is(fmt.Sprintf("Load of %v", bad), err, state.ErrBadRef); err != nil {
			return err
		}
	}
	return nil
}

// slicesApart checks that the store shares no slices with its caller, neither arguments nor results.
func slicesApart(ctx context.Context, store state.Store) error {
	r, err := loads(ctx, store, it, 1, nil)
	if err != nil {
		return err
	}
	value, reply := text("value"), text("reply")
	_, err = store.Save(ctx, it, state.Write{Version: r.Version, Epoch: 1, Value: value, RequestID: "id", Reply: reply})
	if err != nil {
		return fmt.Errorf("the Save: %w", err)
	}
	copy(value, "xxxxx")
	copy(reply, "xxxxx")
	for range 2 {
		if r, err = loads(ctx, store, it, 1, text("value")); err != nil {
			return err
		}
		copy(r.Value, "yyyyy")
		if err := replied(ctx, store, it, "id", text("reply")); err != nil {
			return err
		}
	}
	return nil
}

// contextEnded checks that calls with an ended context neither wait nor write.
func contextEnded(ctx context.Context, store state.Store) error {
	r, err := loads(ctx, store, it, 1, nil)
	if err != nil {
		return err
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, load := store.Load(gone, it, 2)
	_, save := store.Save(gone, it, state.Write{Version: r.Version, Epoch: 1, Value: text("a"), RequestID: "id"})
	_, _, reply := store.Reply(gone, it, "id")
	stored := noReply(ctx, store, it, "id", "of a save whose context had ended")
	_, still := loads(ctx, store, it, 1, nil)
	return errors.Join(is("Load with a context that ended", load, context.Canceled),
		is("Save with a context that ended", save, context.Canceled),
		is("Reply with a context that ended", reply, context.Canceled), stored, still)
}
