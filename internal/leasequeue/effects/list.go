package effects

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
)

// ReadState reads the state of an effect at one revision. It changes nothing. Errors are ErrNoMark,
// lifecycle.ErrBadName, and etcd's.
func ReadState(ctx context.Context, client *clientv3.Client, keys state.Keys, name string) (once.Standing, error) {
	if err := state.CheckName("effect", name); err != nil {
		return once.Standing{}, err
	}
	found, err := readStates(ctx, client, keys, []string{name})
	if err != nil {
		return once.Standing{}, err
	}
	if len(found) == 0 {
		return once.Standing{}, fmt.Errorf("effect %q: %w", name, once.ErrNoMark)
	}
	return found[0], nil
}

const (
	// maxMarksPerRead limits the marks of one request, with values up to MaxValue; maxKeysPerRead limits the keys
	// without values.
	maxMarksPerRead, maxKeysPerRead = 50, 1000
	// maxStatesPerTxn limits the effects of one transaction: two reads each, of etcd's 128.
	maxStatesPerTxn = 50
)

// List reads the state of effects in the order of their keys in etcd. It changes nothing. more reports whether
// others follow the last one. Each effect is read at one revision, but not all at the same: changes made
// meanwhile may be missed or shown as before. Unknown effects are found without reading the values of the
// others, which is fast if nearly all are done. Errors are etcd's, and a lifecycle.UnfinishedError with the
// effects found so far if ctx's deadline passes first.
func List(ctx context.Context, client *clientv3.Client, keys state.Keys,
	q once.Query) (found []once.Standing, more bool, err error) {
	root := keys.EffectMarks()
	if q.Limit == 0 {
		q.Limit = math.MaxInt - 1
	}
	from, page := root, min(q.Limit+1, maxMarksPerRead)
	opts := []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(root))}
	if q.Unknown {
		page = maxKeysPerRead
		opts = append(opts, clientv3.WithKeysOnly())
	}
	if q.After != "" {
		from = keys.EffectMark(q.After) + "\x00"
	}
	opts = append(opts, clientv3.WithLimit(int64(page)))
	after, complete := "", 0 // the last name that is complete, and the number of effects found up to there
	for {
		resp, err := client.Get(clientv3.WithRequireLeader(ctx), from, opts...)
		if err != nil {
			return lifecycle.Unfinished(ctx, found, after, fmt.Errorf("read the marks of effects: %w", err))
		}
		last := after
		var open []string // effects that need more than their mark to tell the state
		at := map[string]int{}
		for _, kv := range resp.Kvs {
			name, ok := keys.EffectOf(string(kv.Key))
			if ok {
				last = name
			}
			switch {
			case !ok || q.Unknown && kv.Lease != 0: // resolved: only marks of running attempts have no lease
			case q.Unknown:
				open = append(open, name)
			default:
				s := stateFromMark(name, kv.Value)
				if s.State == once.Running {
					open = append(open, name)
					at[name] = len(found)
				}
				found = append(found, s)
			}
		}
		for some := range slices.Chunk(open, maxStatesPerTxn) {
			looked, err := readStates(ctx, client, keys, some)
			if err != nil {
				return lifecycle.Unfinished(ctx, found[:complete], after, err)
			}
			for _, s := range looked {
				if !q.Unknown {
					found[at[s.Name]] = s
				} else if s.State == once.Unknown {
					found = append(found, s)
				}
			}
			if len(found) > q.Limit {
				break
			}
			if q.Unknown { // otherwise the page is completed as a whole
				after, complete = some[len(some)-1], len(found)
			}
		}
		if len(found) > q.Limit {
			return found[:q.Limit], true, nil
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return found, false, nil
		}
		after, complete = last, len(found)
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// readStates reads at most maxStatesPerTxn marks, each together with the first entry of the effect's queue. It leaves
// out names without a mark.
func readStates(ctx context.Context, client *clientv3.Client, keys state.Keys, names []string) ([]once.Standing,
	error) {
	var reads []clientv3.Op
	for _, name := range names {
		reads = append(reads, clientv3.OpGet(keys.EffectMark(name)),
			clientv3.OpGet(keys.Effects().QueuePrefix(name), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
				clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1)))
	}
	resp, err := client.Txn(clientv3.WithRequireLeader(ctx)).Then(reads...).Commit()
	if err != nil {
		return nil, fmt.Errorf("read the marks of effects: %w", err)
	}
	var found []once.Standing
	for i, name := range names {
		mark, first := resp.Responses[2*i].GetResponseRange().Kvs, resp.Responses[2*i+1].GetResponseRange().Kvs
		if len(mark) == 0 {
			continue
		}
		s := stateFromMark(name, mark[0].Value)
		// The token is the CreateRevision of the attempt's entry, which is unique.
		if s.State == once.Running && (len(first) == 0 || first[0].CreateRevision != s.Token) {
			s.State = once.Unknown
		}
		found = append(found, s)
	}
	return found, nil
}

// stateFromMark returns the state by the mark alone, which does not suffice for a running attempt.
func stateFromMark(name string, raw []byte) once.Standing {
	m, _, err := decodeMark(raw)
	switch {
	case err != nil:
		return once.Standing{Name: name, State: once.Unreadable, Error: err.Error()}
	case m.State != once.Running && m.State != once.Done && m.State != once.Failed:
		return once.Standing{Name: name, State: once.Unreadable, Error: fmt.Sprintf("there is no state %q", m.State)}
	}
	return once.Standing{Name: name, State: m.State, Attempt: m.Attempt, Token: m.Token, By: m.By, At: m.At,
		Value: m.Value, Dropped: m.Dropped,
		Error: m.Error, Resolved: m.Resolved, Retention: time.Duration(m.Retention) * time.Second}
}
