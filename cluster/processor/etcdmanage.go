package processor

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state/format"
)

// Report implements [Checkpoint], mostly with one request.
func (e *Etcd) Report(ctx context.Context, name string, r Report) (Mark, error) {
	value, err := format.Encode(r, nil)
	if err != nil {
		return Mark{}, err
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	key := e.keys.ProcessorReport(name)
	known, _ := e.reports.Load(name)
	revision, _ := known.(int64)
	reads := append(e.requestReads(name), clientv3.OpGet(e.keys.Checkpoint(name)), clientv3.OpGet(key))
	for {
		resp, err := e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(append(reads[:3:3], clientv3.OpPut(key, string(value)))...).Else(reads...).Commit()
		if err != nil {
			return Mark{}, fmt.Errorf("publish the report of processor %q: %w", name, err)
		}
		s, err := e.decodeStored(name, resp.Responses)
		switch {
		case err != nil:
			return Mark{}, err
		case s.Token > r.Token:
			e.reports.Delete(name)
			return Mark{}, fencedError(name, r.Token, s.Token)
		case s.Token < r.Token:
			return Mark{}, movedError(name, s.mark(), nil)
		case resp.Succeeded:
			e.reports.Store(name, resp.Header.Revision)
			return s.mark(), nil
		}
		revision = 0
		for _, kv := range resp.Responses[3].GetResponseRange().Kvs {
			revision = kv.ModRevision
		}
	}
}

// Rewind implements [Manager].
func (e *Etcd) Rewind(ctx context.Context, name string, to Position) error {
	if err := to.Validate(); err != nil {
		return fmt.Errorf("rewind processor %q: %w", name, err)
	}
	return e.changeStored(ctx, name, func(s *storedCheckpoint) { s.Position, s.Replay = to, s.mark().replayFrom(to) })
}

// Unfence implements [Manager].
func (e *Etcd) Unfence(ctx context.Context, name string) error {
	return e.changeStored(ctx, name, func(s *storedCheckpoint) { s.Token = 0 })
}

// changeStored applies f to the stored checkpoint.
func (e *Etcd) changeStored(ctx context.Context, name string, f func(s *storedCheckpoint)) error {
	for {
		s, err := e.readStored(ctx, name)
		if err != nil {
			return err
		}
		changed := s
		f(&changed)
		ok, err := e.writeStored(ctx, name, s.revision, &changed)
		if ok || err != nil {
			return err
		}
	}
}

// RequestPause implements [Manager].
func (e *Etcd) RequestPause(ctx context.Context, name string, r PauseRequest) error {
	key := e.keys.ProcessorPause(name)
	for {
		s, err := e.readStored(ctx, name)
		if err != nil {
			return err
		}
		value, err := format.Encode(r.Normalize(), s.requests.rest)
		if err != nil {
			return err
		}
		ok, err := e.replace(ctx, key, s.requests.pause.Number, string(value))
		if err != nil {
			return fmt.Errorf("store the request to pause or resume processor %q: %w", name, err)
		}
		if ok {
			return nil
		}
	}
}

// replace writes a key if its revision is still the given one. It reports whether it did.
func (e *Etcd) replace(ctx context.Context, key string, revision int64, value string) (bool, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	resp, err := e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpPut(key, value)).Commit()
	return err == nil && resp.Succeeded, err
}

// Look implements [Manager].
func (e *Etcd) Look(ctx context.Context, name string) (Standing, error) {
	if err := CheckName(name); err != nil {
		return Standing{}, err
	}
	all, err := e.readStandings(ctx, []string{name})
	if err == nil && all[0].Claim == 0 && all[0].Token == 0 && all[0].Position == "" && all[0].Pause.Number == 0 {
		err = unknownError(name)
	}
	if err != nil {
		return Standing{}, err
	}
	return all[0], nil
}

// List implements [Manager]. It lists processors with a checkpoint, in the order of their keys.
func (e *Etcd) List(ctx context.Context, q Query) (found []Standing, more bool, err error) {
	from, limit := e.keys.Checkpoints(), q.Number()
	if q.After != "" {
		from = e.keys.Checkpoint(q.After) + "\x00"
	}
	var names []string
	for more = true; more && len(names) == 0; { // a page may have only keys of other programs
		var last string
		if names, last, more, err = e.readNames(ctx, from, limit); err != nil {
			return nil, false, err
		}
		from = last + "\x00"
	}
	for len(names) > 0 {
		some := names[:min(len(names), standingsPerRead)]
		names = names[len(some):]
		read, err := e.readStandings(ctx, some)
		if err != nil {
			return nil, false, err
		}
		found = append(found, read...)
	}
	return found, more, nil
}

// readNames reads the names of processors from a key on, and the last key read.
func (e *Etcd) readNames(ctx context.Context, from string, limit int) (names []string, last string, more bool,
	err error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	resp, err := e.client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(e.keys.Checkpoints())),
		clientv3.WithKeysOnly(), clientv3.WithLimit(int64(limit)))
	if err != nil {
		return nil, "", false, fmt.Errorf("list the processors: %w", err)
	}
	for _, kv := range resp.Kvs {
		last = string(kv.Key)
		if name, ok := e.keys.ProcessorOf(last); ok {
			names = append(names, name)
		}
	}
	return names, last, resp.More, nil
}

// standingsPerRead limits the processors that one transaction reads: etcd accepts 128 operations.
const standingsPerRead = 25

// opsPerStanding is the number of reads for one processor.
const opsPerStanding = 5

// readStandings reads processors at one revision.
func (e *Etcd) readStandings(ctx context.Context, names []string) ([]Standing, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.timeout)
	defer cancel()
	var reads []clientv3.Op
	for _, name := range names {
		reads = append(append(reads, e.requestReads(name)...), clientv3.OpGet(e.keys.Checkpoint(name)),
			clientv3.OpGet(e.keys.ProcessorReport(name)),
			clientv3.OpGet(e.keys.Parked(name), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	}
	resp, err := e.client.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return nil, fmt.Errorf("read the processors: %w", err)
	}
	all := make([]Standing, len(names))
	for i, name := range names {
		if all[i], err = e.decodeStanding(name, resp.Responses[i*opsPerStanding:]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (e *Etcd) decodeStanding(name string, answers []*etcdserverpb.ResponseOp) (Standing, error) {
	s, err := e.decodeStored(name, answers)
	if err != nil {
		return Standing{}, err
	}
	now := Standing{Name: name, Position: s.Position, Token: s.Token, Claim: s.Claims, Replay: s.Replay,
		Pause: s.requests.pause, Parked: answers[4].GetResponseRange().Count}
	for _, kv := range answers[3].GetResponseRange().Kvs {
		now.Report = &Report{}
		if err := format.DecodeKnown(string(kv.Key), kv.Value, now.Report); errors.Is(err, ErrFormat) {
			now.Report = nil // of a newer release; the others are as they are
		} else if err != nil {
			return Standing{}, unreadableError(name, "report", string(kv.Key), err)
		}
	}
	return now, nil
}
