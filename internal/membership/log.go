package membership

import (
	"context"
	"maps"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/mirror"
	"github.com/goverse/goverse/internal/state"
)

// Log writes a line for every other member that joins, leaves or is lost, until ctx ends. One left if its
// record said that it was stopping. The first snapshot is where it starts from. own is the address of this
// node.
func Log(ctx context.Context, view *mirror.Mirror, own string, log hclog.Logger) {
	newMemberLog(own, log).run(ctx, view)
}

type memberLog struct {
	own string // this node's address
	log hclog.Logger

	mu       sync.Mutex
	stopping map[int64]bool // incarnations last seen so
}

func newMemberLog(own string, log hclog.Logger) *memberLog {
	return &memberLog{own: own, log: log, stopping: map[int64]bool{}}
}

func (l *memberLog) run(ctx context.Context, m *mirror.Mirror) {
	sub := m.Subscribe(l.concerns)
	defer sub.Close()
	var seen *state.Snapshot
	for {
		select {
		case <-sub.C:
		case <-ctx.Done():
			return
		}
		now := m.Snapshot()
		if seen != nil {
			l.report(seen, now)
		}
		seen = now
	}
}

// concerns reports whether a member came or went. On its way it notes which ones are
// stopping: signals coalesce, and that may be all there is to see of a node between
// two looks. It runs in the mirror's goroutine.
func (l *memberLog) concerns(before, now *state.Snapshot) bool {
	look := false
	diff(before.Registered(), now.Registered(), func(was, is *state.Member) {
		if was == nil || is == nil {
			look = true
		}
		if is != nil && is.Stopping {
			l.mu.Lock()
			l.stopping[is.Incarnation] = true
			l.mu.Unlock()
		}
	})
	return look
}

func (l *memberLog) report(before, now *state.Snapshot) {
	diff(before.Registered(), now.Registered(), func(was, is *state.Member) {
		switch {
		case was != nil && is != nil, was != nil && was.Address == l.own, is != nil && is.Address == l.own:
		case is != nil:
			l.log.Info("a node joined", "address", is.Address, "members", len(now.Registered()))
		case was.Stopping || l.marked(was.Incarnation):
			l.log.Info("a node left", "address", was.Address, "members", len(now.Registered()))
		default:
			l.log.Info("a node was lost", "address", was.Address, "members", len(now.Registered()))
		}
	})
	l.forget(now)
}

// marked takes the lock for itself: none is held while a line is written, for the
// mirror's goroutine wants it too.
func (l *memberLog) marked(incarnation int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopping[incarnation]
}

// forget drops the marks of members that are gone.
func (l *memberLog) forget(now *state.Snapshot) {
	there := make(map[int64]bool, len(now.Registered()))
	for _, m := range now.Members {
		there[m.Incarnation] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.stopping, func(incarnation int64, _ bool) bool {
		return incarnation <= now.Revision && !there[incarnation]
	})
}

// diff calls differs for every member, both lists being sorted by address, that is
// in one list only (the other one is nil) or whose record differs. A new
// incarnation at an address is another member.
func diff(before, now []*state.Member, differs func(was, is *state.Member)) {
	if len(before) == len(now) && (len(now) == 0 || &before[0] == &now[0]) {
		return // lists are never written to
	}
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(before) > 0 && before[0].Address < now[0].Address:
			differs(before[0], nil)
			before = before[1:]
		case len(before) == 0 || now[0].Address < before[0].Address:
			differs(nil, now[0])
			now = now[1:]
		default:
			switch {
			case before[0].Incarnation != now[0].Incarnation:
				differs(before[0], nil)
				differs(nil, now[0])
			case before[0] != now[0]:
				differs(before[0], now[0])
			}
			before, now = before[1:], now[1:]
		}
	}
}
