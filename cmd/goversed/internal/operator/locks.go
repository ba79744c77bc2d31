package operator

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
)

// Modes of a lock.
const (
	LockExclusive = "exclusive"
	LockShared    = "shared" // several callers may hold it together
)

// NamedLock is the state of a lock in etcd. It has no time of acquisition, because etcd does not keep it.
type NamedLock struct {
	Name    string       `json:"name"`
	Mode    string       `json:"mode"`
	Holders []LockHolder `json:"holders"` // the first one first
	Waiting int          `json:"waiting"` // number of callers that wait for it
}

// LockHolder is one holder of a lock.
type LockHolder struct {
	Owner string `json:"owner"` // a node's address, or the name that another process gave itself
	Token int64  `json:"token"`
}

// Locks lists the locks that are held or waited for, in the order of their keys in etcd. It may take until ctx ends:
// timeout only limits one step, in which etcd must answer something. Locks returns the errors of Read.
func (o *Operator) Locks(ctx context.Context, timeout time.Duration, q ListQuery) (List[NamedLock], error) {
	return readList(ctx, o.stepFor(timeout), listSource[NamedLock]{
		needs: "READ on the prefix " + o.keys.Locks().Root(),
		name:  func(l NamedLock) string { return l.Name },
		read: func(ctx context.Context, after string, limit int) (items []NamedLock, more bool, err error) {
			found, more, err := etcdlock.List(ctx, o.client, o.keys, lock.Query{After: after, Limit: limit})
			for _, s := range found {
				items = append(items, newNamedLock(s))
			}
			return items, more, err
		}}, q)
}

func newNamedLock(s lock.Standing) NamedLock {
	l := NamedLock{Name: s.Name, Mode: LockExclusive, Holders: []LockHolder{}, Waiting: s.Length - len(s.Holders)}
	if s.Shared {
		l.Mode = LockShared
	}
	for _, h := range s.Holders {
		l.Holders = append(l.Holders, LockHolder(h))
	}
	return l
}

// PrintLocks writes a table of the locks. Where says where they were looked for, as in "under /goverse".
func PrintLocks(out io.Writer, where string, all List[NamedLock], asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(out, all)
	case len(all.Items) == 0 && !all.More:
		_, err := fmt.Fprintf(out, "no lock %s is held\n", where)
		return err
	}
	w := &tableWriter{out: out}
	w.writeRow("LOCK", "MODE", "HOLDER", "TOKEN", "WAITING")
	for _, l := range all.Items {
		var owners, tokens []string
		for _, h := range l.Holders {
			owners, tokens = append(owners, quoteIfUnclear(h.Owner)), append(tokens, fmt.Sprint(h.Token))
		}
		w.writeRow(quoteIfUnclear(l.Name), l.Mode, orDash(strings.Join(owners, ", ")), orDash(strings.Join(tokens, ", ")),
			fmt.Sprint(l.Waiting))
	}
	all.writeRest(w)
	return w.flush()
}
