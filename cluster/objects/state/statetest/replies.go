package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goverse/goverse/cluster/objects/state"
)

// expectReply returns an error unless the stored reply is want.
func expectReply(ctx context.Context, store state.Store, ref state.Ref, id string, want []byte) error {
	got, ok, err := store.Reply(ctx, ref, id)
	switch {
	case err != nil:
		return fmt.Errorf("the Reply of %v to %.40q: %w", ref, id, err)
	case !ok:
		return fmt.Errorf("the Reply of %v to %.40q: there is none", ref, id)
	case !bytes.Equal(got, want):
		return fmt.Errorf("the Reply of %v to %.40q is %.40q, not %.40q", ref, id, got, want)
	}
	return nil
}

// expectNoReply returns an error if there is a reply.
func expectNoReply(ctx context.Context, store state.Store, ref state.Ref, id, what string) error {
	_, ok, err := store.Reply(ctx, ref, id)
	switch {
	case err != nil:
		return fmt.Errorf("the Reply %s: %w", what, err)
	case ok:
		return fmt.Errorf("the Reply %s: there is one", what)
	}
	return nil
}

func checkReplies(ctx context.Context, store state.Store) error {
	other := state.Ref{Service: testRef.Service, Key: "other"}
	r, err := expectLoad(ctx, store, testRef, 1, nil)
	if err != nil {
		return err
	}
	version := r.Version
	want := map[string][]byte{"first": bytesOf("done"), "empty": {}, "nil": nil,
		"large": bytes.Repeat([]byte{0, 0xff}, 1<<15)}
	for id, reply := range want {
		version, err = store.Save(ctx, testRef, state.Write{Version: version, Epoch: 1, Value: bytesOf(id), RequestID: id,
			Reply: reply})
		if err != nil {
			return fmt.Errorf("the Save with a request id: %w", err)
		}
	}
	for id, reply := range want {
		if err := expectReply(ctx, store, testRef, id, reply); err != nil {
			return err
		}
	}
	for _, id := range []string{"firs", "first2", "FIRST"} {
		if err := expectNoReply(ctx, store, testRef, id, fmt.Sprintf("to %q, which was not stored", id)); err != nil {
			return err
		}
	}
	if err := expectNoReply(ctx, store, other, "first", "of another object"); err != nil {
		return err
	}
	// The next owner gets the replies too, and Reply claims nothing.
	if r, err = store.Load(ctx, testRef, 2); err != nil {
		return fmt.Errorf("the Load: %w", err)
	}
	if err := expectReply(ctx, store, testRef, "first", want["first"]); err != nil {
		return err
	}
	// A later save replaces the reply, which may have expired.
	_, err = store.Save(ctx, testRef, state.Write{Version: r.Version, Epoch: 2, Value: bytesOf("v"), RequestID: "first",
		Reply: bytesOf("done anew")})
	if err != nil {
		return fmt.Errorf("the Save with a request id of before: %w", err)
	}
	return expectReply(ctx, store, testRef, "first", bytesOf("done anew"))
}

func checkRequestIDs(ctx context.Context, store state.Store) error {
	r, err := expectLoad(ctx, store, testRef, 1, nil)
	if err != nil {
		return err
	}
	version := r.Version
	good := []string{"1", "a/b", "a%2Fb", `it's "x"`, " ", "..", `\`, strings.Repeat("~", 200)}
	for _, id := range good {
		version, err = store.Save(ctx, testRef, state.Write{Version: version, Epoch: 1, RequestID: id, Reply: bytesOf(id)})
		if err != nil {
			return fmt.Errorf("the Save with the request id %.40q: %w", id, err)
		}
	}
	for _, id := range good {
		if err := expectReply(ctx, store, testRef, id, bytesOf(id)); err != nil {
			return err
		}
	}
	for _, id := range []string{"\x00", "\n", "é", "\xff", strings.Repeat("x", 201)} {
		_, err = store.Save(ctx, testRef, state.Write{Version: version, Epoch: 1, RequestID: id})
		if err := expectError(fmt.Sprintf("Save with the request id %.40q", id), err, state.ErrBadRequestID); err != nil {
			return err
		}
	}
	_, err = store.Save(ctx, testRef, state.Write{Version: version, Epoch: 1})
	return expectError("Save after bad request ids", err, nil)
}

func checkDeleted(ctx context.Context, store state.Store) error {
	r, err := expectLoad(ctx, store, testRef, 1, nil)
	if err != nil {
		return err
	}
	v, err := store.Save(ctx, testRef, state.Write{Version: r.Version, Epoch: 1, Value: bytesOf("a"), RequestID: "open"})
	if err != nil {
		return fmt.Errorf("the Save: %w", err)
	}
	v, err = store.Save(ctx, testRef, state.Write{Version: v, Epoch: 1, Value: bytesOf("ignored"), Delete: true,
		RequestID: "close", Reply: bytesOf("closed")})
	if err != nil {
		return fmt.Errorf("the Save that deletes: %w", err)
	}
	for _, value := range []string{"b", "c"} { // there may be a state again
		if v, err = store.Save(ctx, testRef, state.Write{Version: v, Epoch: 1, Value: bytesOf(value)}); err != nil {
			return fmt.Errorf("the Save after one that deletes: %w", err)
		}
	}
	if v, err = store.Save(ctx, testRef, state.Write{Version: v, Epoch: 1, Delete: true}); err != nil {
		return fmt.Errorf("the Save that deletes once more: %w", err)
	}
	if _, err = store.Save(ctx, testRef, state.Write{Version: v, Epoch: 1, Delete: true}); err != nil {
		return fmt.Errorf("the Save that deletes what is not there: %w", err)
	}
	_, err = expectLoad(ctx, store, testRef, 1, nil)
	return errors.Join(err, expectReply(ctx, store, testRef, "open", nil),
		expectReply(ctx, store, testRef, "close", bytesOf("closed")))
}

func checkDeletedFenced(ctx context.Context, store state.Store) error {
	old, err := expectLoad(ctx, store, testRef, 1, nil)
	if err != nil {
		return err
	}
	now, err := expectLoad(ctx, store, testRef, 2, nil)
	if err != nil {
		return err
	}
	v, err := store.Save(ctx, testRef, state.Write{Version: now.Version, Epoch: 2, Value: bytesOf("a")})
	if err == nil {
		_, err = store.Save(ctx, testRef, state.Write{Version: v, Epoch: 2, Delete: true})
	}
	if err != nil {
		return fmt.Errorf("the Save: %w", err)
	}
	for _, version := range []int64{0, old.Version, now.Version, v} {
		_, err := store.Save(ctx, testRef, state.Write{Version: version, Epoch: 1, Value: bytesOf("paused")})
		if err := expectError("Save with an epoch that was overtaken, of what was deleted", err,
			state.ErrFenced); err != nil {
			return err
		}
		_, err = store.Save(ctx, testRef, state.Write{Version: version, Epoch: 2, Value: bytesOf("delayed")})
		if err := expectError("Save with a version from before it was deleted", err, state.ErrConflict); err != nil {
			return err
		}
	}
	_, err = expectLoad(ctx, store, testRef, 2, nil)
	return err
}
