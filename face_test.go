package goverse

import (
	"context"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

// fenced is implemented by what guards the caller's transactions in etcd.
type fenced interface {
	Guard() []clientv3.Cmp
	Txn(ctx context.Context) clientv3.Txn
}

// list is the signature of every List.
type list[H, Q, R any] func(handle H, ctx context.Context, query Q) (found []R, more bool, err error)

// What does the same has the same signature.
var (
	_ = []fenced{leaderelection.Term(nil), lock.Held(nil), (*cluster.Ownership)(nil)}

	_ list[*cluster.Elections, leaderelection.Query, leaderelection.Standing] = (*cluster.Elections).List
	_ list[*cluster.Locks, lock.Query, lock.Standing]                         = (*cluster.Locks).List
	_ list[*cluster.Effects, once.Query, once.Standing]                       = (*cluster.Effects).List
	_ list[*cluster.Events, event.Query, event.Event]                         = (*cluster.Events).List

	_ = []io.Closer{(*cluster.Election)(nil), (*client.Client)(nil), (*mtls.Certificates)(nil), (*fault.Relay)(nil),
		(*embedetcd.Server)(nil), (*embedetcd.Cluster)(nil), (*node.Node)(nil)}
	_ interface {
		Close(ctx context.Context) error
	} = (*cluster.Candidate)(nil) // waits for the term's functions
)

// Methods called Watch... return a channel of values first.
func TestWatchReturnsAChannel(t *testing.T) {
	found := 0
	for _, handle := range []any{&cluster.Cluster{}, &cluster.Elections{}, &cluster.Election{}, &cluster.Candidate{},
		&cluster.Shards{}, &cluster.Locks{}, &cluster.Effects{}, &cluster.Events{}, &cluster.ConsensusManager{},
		&leaderelection.LeaderElection{}, &objects.Objects{}, &node.Node{}} {
		for method := range reflect.TypeOf(handle).Methods() {
			if !strings.HasPrefix(method.Name, "Watch") {
				continue
			}
			found++
			first := method.Type.Out(0)
			require.Equal(t, reflect.Chan, first.Kind(), "%T.%s", handle, method.Name)
			require.NotEqual(t, reflect.TypeFor[struct{}](), first.Elem(), "%T.%s is a signal", handle, method.Name)
		}
	}
	require.Greater(t, found, 4)
}

// All that is shown has the JSON names of the fields in snake case, like the answers over HTTP.
func TestShownTypesHaveJSONNames(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var check func(shown reflect.Type)
	check = func(shown reflect.Type) {
		for shown.Kind() == reflect.Pointer || shown.Kind() == reflect.Slice || shown.Kind() == reflect.Map {
			shown = shown.Elem()
		}
		if shown.Kind() != reflect.Struct || seen[shown] || !strings.HasPrefix(shown.PkgPath(), module) {
			return
		}
		seen[shown] = true
		for field := range shown.Fields() {
			name := field.Tag.Get("json")
			if field.IsExported() && !field.Anonymous {
				require.NotEmpty(t, name, "%v.%s has no JSON name", shown, field.Name)
				require.Equal(t, strings.ToLower(name), name)
			}
			if name != "-" {
				check(field.Type)
			}
		}
	}
	for _, shown := range []any{cluster.Status{}, cluster.Stats{}, cluster.MemberTable{}, cluster.LeaderInfo{},
		cluster.Drained{}, leaderelection.Standing{}, lock.Standing{}, once.Standing{}, once.Result{}, event.Event{},
		shard.Table{}, shard.Owner{}, objects.Stats{}, objects.Activity{}, processor.Status{}, processor.Parked{},
		automation.Status{}} {
		check(reflect.TypeOf(shown))
	}
	require.Greater(t, len(seen), 20)
}

// What only Goverse's own packages use is declared where only they can import it.
func TestOwnPartsAreNotPublic(t *testing.T) {
	for place, names := range map[string][]string{
		"node": {"Identify", "OpenWatch", "SetReady", "MarkStopping", "WatcherLost", "SetRoster", "SetArmer", "WatchKey",
			"type Watch", "type Identity"},
		"cluster":         {"RegisterObjects"},
		"cluster/objects": {"Make", "Error", "Names", "type Activation", "type Service", "type Options"},
		"cluster/stats":   {"Observe", "NewDurations", "Clone"},
		"cluster/lock":    {"NewOptions"},
	} {
		declared := declarations(t, filepath.FromSlash(place))
		require.NotEmpty(t, declared)
		for _, name := range names {
			require.False(t, declared[name], "package %s declares %s", place, name)
		}
	}
}
