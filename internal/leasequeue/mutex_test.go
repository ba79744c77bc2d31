package leasequeue

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutexes are those that are declared in the packages' files, tests left out.
func mutexes(t *testing.T, dirs ...string) []string {
	t.Helper()
	var found []string
	for _, dir := range dirs {
		ours := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
		packages, err := parser.ParseDir(token.NewFileSet(), dir, ours, 0)
		require.NoError(t, err)
		for _, p := range packages {
			ast.Inspect(p, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "Mutex" || s.Sel.Name == "RWMutex") {
					found = append(found, p.Name)
				}
				return true
			})
		}
	}
	return found
}

// There is one lock, so none is taken within another one of this package.
func TestOneMutex(t *testing.T) {
	require.Equal(t, []string{"leasequeue"}, mutexes(t, ".", "order", "place"))
}

// Whoever is notified may ask anything and give anything up: the lock is not held then. A test of another order would
// not end.
func TestNotifiedWithoutTheLock(t *testing.T) {
	play(t, func(s *testBed) {
		q := s.queues(well)
		var x *Entry
		notified := 0
		ask := func() {
			notified++
			if x == nil {
				return
			}
			_, _ = x.Token(), x.Settled()
			x.Revoke(errors.New("no more"))
			x.Abandon()
			_ = q.TryEnter(Want{Name: "another"})
			_ = q.Closed()
		}
		f := q.Follow("it", ask)
		defer f.Stop()
		x = s.enter(q, Want{Name: "it", Notify: ask})
		<-x.Settled()
		ctx := x.Context()
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			ask()
			close(ended)
		})
		defer stop()
		x.Abandon()
		require.NoError(s, x.Gone(s.ctx))
		<-ended
		<-time.After(time.Second)
		require.Greater(s, notified, 2)
	})
}
