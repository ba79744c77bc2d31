package operator

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/goverse/goverse/internal/lifecycle"
)

// List is one page of a list. Every list of goversed has this shape as JSON.
type List[T any] struct {
	Items []T `json:"items"` // never nil
	// More reports whether the list was cut short. There may be others behind the last item.
	More bool `json:"more"`
	// Next is the value of --after that continues a list that was cut short, as the command accepts it. It is ""
	// for a list that has no --after.
	Next string `json:"next,omitempty"`

	// timedOut reports that ctx's deadline cut the list short, and not its limit.
	timedOut bool
}

// ListQuery selects a part of a list.
type ListQuery struct {
	// After excludes items up to that name, in the order of the list.
	After string
	// Limit limits the number of items; 0 means no limit.
	Limit int
	// NamePrefix restricts the list to names that begin with it.
	NamePrefix string
}

// itemsPerRead limits the items read in one step of a list with a filter or without a limit.
const itemsPerRead = 1000

// newList returns a complete list.
func newList[T any](items []T) List[T] {
	if items == nil {
		items = []T{}
	}
	return List[T]{Items: items}
}

// listSource reads the items of one kind.
type listSource[T any] struct {
	read func(ctx context.Context, after string, limit int) (items []T, more bool, err error)
	name func(T) string
	// needs names the rights that a read needs.
	needs string
}

// readList reads a page in as many steps as it takes. It may take until ctx ends: o's timeout only limits one step,
// in which etcd must answer something. If ctx's deadline passes first, the page has the items read until then.
func readList[T any](ctx context.Context, step stepFunc, from listSource[T], q ListQuery) (List[T], error) {
	all, limit := newList[T](nil), q.Limit
	if limit == 0 {
		limit = math.MaxInt - 1
	}
	cut := func(after string) (List[T], error) {
		all.More, all.Next = true, quoteIfUnclear(after)
		return sortByName(all, from.name), nil
	}
	for {
		most := min(limit-len(all.Items), itemsPerRead)
		if q.NamePrefix != "" {
			most = itemsPerRead
		}
		var found []T
		var more bool
		stoppedAt, err := step(ctx, from.needs, func(ctx context.Context) (err error) {
			found, more, err = from.read(ctx, q.After, most)
			return err
		})
		if err != nil {
			return List[T]{}, err
		}
		for _, item := range found {
			q.After = from.name(item)
			switch {
			case !strings.HasPrefix(q.After, q.NamePrefix):
			case len(all.Items) == limit: // only a list with a filter reads on to see that there are others
				return cut(from.name(all.Items[limit-1]))
			default:
				all.Items = append(all.Items, item)
			}
		}
		if stoppedAt != "" {
			q.After = stoppedAt
		}
		switch {
		case !more && stoppedAt == "":
			return sortByName(all, from.name), nil
		case len(all.Items) == limit && q.NamePrefix == "":
			return cut(q.After)
		case stoppedAt != "" && errors.Is(ctx.Err(), context.DeadlineExceeded):
			all.timedOut = true
			return cut(q.After)
		}
	}
}

// sortByName sorts the items of one page. Next, which follows etcd's order, stays.
func sortByName[T any](l List[T], name func(T) string) List[T] {
	slices.SortStableFunc(l.Items, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	return l
}

// stepFunc executes one step of a list. It returns the name after which an unfinished step must be continued, "" if
// the step is complete. After an error nothing was read.
type stepFunc func(ctx context.Context, needs string, list func(context.Context) error) (after string, err error)

// finishPart calls list and turns an unfinished result into the name after which it must be continued.
func finishPart(ctx context.Context, list func(context.Context) error) (after string, err error) {
	err = list(ctx)
	if unfinished, ok := errors.AsType[*lifecycle.UnfinishedError](err); ok {
		return unfinished.After, nil
	}
	return "", err
}

// writeRest writes that a list goes on, and how.
func (l List[T]) writeRest(w *tableWriter) {
	switch {
	case l.timedOut:
		w.writeLine("")
		w.writeLine("the time was up before all were looked at: go on with --after %s", l.Next)
	case l.More:
		w.writeLine("")
		w.writeLine("there are more: go on with --after %s, or give a larger --limit", l.Next)
	}
}
