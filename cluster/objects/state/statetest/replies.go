package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goverse/goverse/cluster/objects/state"
)

// replied returns an error unless the stored reply is want.
func replied(ctx context.Context, store state.Store, ref state.Ref, id string, want []byte) error {
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

// noReply returns an error if there is a reply.
func noReply(ctx context.Context, store state.Store, ref state.Ref, id, what string) error {
	_, ok, err := store.Reply(ctx, ref, id)
	switch {
	case err != nil:
		return fmt.Errorf("the Reply %s: %w", what, err)
	case ok:
		return fmt.Errorf("the Reply %s: there is one", what)
	}
	return nil
}

func replies(ctx context.Context, store state.Store) error {
	other := state.Ref{Service: it.Service, Key: "other"}
	r, err := loads(ctx, store, it, 1, nil)
	if err != nil {
		return err
	}
	version := r.Version
	want := map[string][]byte{"first": text("done"), "empty": {}, "nil": nil,
		"large": bytes.Repeat([]byte{0, 0xff}, 1<<15)}
	for id, reply := range want {
		version, err = store.Save(ctx, it, state.Write{Version: version, Epoch: 1, Value: text(id), RequestID: id,
			Reply: reply})
		if err != nil {
			return fmt.Errorf("the Save with a request id: %w", err)
		}
	}
	for id, reply := range want {
		if err := replied(ctx, store, it, id, reply); err != nil {
			return err
		}
	}
	for _, id := range []string{"firs", "first2", "FIRST"} {
		if err := noReply(ctx, store, it, id, fmt.Sprintf("to %q, which was not stored", id)); err != nil {
			return err
		}
	}
	if err := noReply(ctx, store, other, "first", "of another object"); err != nil {
		return err
	}
	// The next owner gets the replies too, and Reply claims nothing.
	if r, err = store.Load(ctx, it, 2); err != nil {
		return fmt.Errorf("the Load: %w", err)
	}
	if err := replied(ctx, store, it, "first", want["first"]); err != nil {
		return err
	}
	// A later save replaces the reply, which may have expired.
	_, err = store.Save(ctx, it, state.Write{Version: r.Version, Epoch: 2, Value: text("v"), RequestID: "first",
		Reply: text("done anew")})
	if err != nil {
		return fmt.Errorf("the Save with a request id of before: %w", err)
	}
	return replied(ctx, store, it, "first", text("done anew"))
}

func requestIDs(ctx context.Context, store state.Store) error {
	r, err := loads(ctx, store, it, 1, nil)
	if err != nil {
		return err
	}
	version := r.Version
	good := []string{"1", "a/b", "a%2Fb", `it's "x"`, " ", "..", `\`, strings.Repeat("~", 200)}
	for _, id := range good {
		version, err = store.Save(ctx, it, state.Write{Version: version, Epoch: 1, RequestID: id, Reply: text(id)})
		if err != nil {
			return fmt.Errorf("the Save with the request id %.40q: %w", id, err)
		}
	}
	for _, id := range good {
		if err := replied(ctx, store, it, id, text(id)); err != nil {
			return err
		}
	}
	for _, id := range []string{"\x00", "\n", "é", "\xff", strings.Repeat("x", 201)} {
		_, err = store.Save(ctx, it, state.Write{Version: version, Epoch: 1, RequestID: id})
		if err := is(fmt.Sprintf("Save with the request id %.40q", id), err, state.ErrBadRequestID); err != nil {
			return err
		}
	}
	_, err = store.Save(ctx, it, state.Write{Version: version, Epoch: 1})
	return is("Save after bad request ids", err, nil)
}

func deleted(ctx context.Context, store state.Store) error {
	r, err := loads(ctx, store, it, 1, nil)
	if err != nil {
		return err
	}
	v, err := store.Save(ctx, it, state.Write{Version: r.Version, Epoch: 1, Value: text("a"), RequestID: "open"})
	if err != nil {
		return fmt.Errorf("the Save: %w", err)
	}
	v, err = store.Save(ctx, it, state.Write{Version: v, Epoch: 1, Value: text("ignored"), Delete: true,
		RequestID: "close", Reply: text("closed")})
	if err != nil {
		return fmt.Errorf("the Save that deletes: %w", err)
	}
	for _, value := range []string{"b", "c"} { // there may be a state again
		if v, err = store.Save(ctx, it, state.Write{Version: v, Epoch: 1, Value: text(value)}); err != nil {
			return fmt.Errorf("the Save after one that deletes: %w", err)
		}
	}
	if v, err = store.Save(ctx, it, state.Write{Version: v, Epoch: 1, Delete: true}); err != nil {
		return fmt.Errorf("the Save that deletes once more: %w", err)
	}
	if _, err = store.Save(ctx, it, state.Write{Version: v, Epoch: 1, Delete: true}); err != nil {
		return fmt.Errorf("the Save that deletes what is not there: %w", err)
	}
	_, err = loads(ctx, store, it, 1, nil)
	return errors.Join(err, replied(ctx, store, it, "open", nil), replied(ctx, store, it, "close", text("closed")))
}

func deletedFenced(ctx context.Context, store state.Store) error {
	old, err := loads(ctx, store, it, 1, nil)
	if err != nil {
		return err
	}
	now, err := loads(ctx, store, it, 2, nil)
	if err != nil {
		return err
	}
	v, err := store.Save(ctx, it, state.Write{Version: now.Version, Epoch: 2, Value: text("a")})
	if err == nil {
		_, err = store.Save(ctx, it, state.Write{Version: v, Epoch: 2, Delete: true})
	}
	if err != nil {
		return fmt.Errorf("the Save: %w", err)
	}
	for _, version := range []int64{0, old.Version, now.Version, v} {
		_, err := store.Save(ctx, it, state.Write{Version: version, Epoch: 1, Value: text("paused")})
		if err := is("Save with an epoch that was overtaken, of what was deleted", err, state.ErrFenced); err != nil {
			return err
		}
		_, err = store.Save(ctx, it, state.Write{Version: version, Epoch: 2, Value: text("delayed")})
		if err := is("Save with a version from before it was deleted", err, state.ErrConflict); err != nil {
			return err
		}
	}
	_, err = loads(ctx, store, it, 2, nil)
	return err
}
