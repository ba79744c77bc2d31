package cluster

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
)

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: b, Level: hclog.Info})
}

// await waits for a line with text.
func (b *logBuffer) await(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(b.String(), text) }, 10*time.Second, time.Millisecond,
		"no line with %q", text)
}

func TestTheOthersComingsAreLogged(t *testing.T) {
	etcd := etcdtest.Start(t)
	first := start(t, etcd)
	log := &logBuffer{}
	a := start(t, etcd, func(c *Config) { c.Logger = log.logger() })
	b, c := start(t, etcd), start(t, etcd)
	log.await(t, "a node joined: address="+b.address()+" members=3")
	log.await(t, "a node joined: address="+c.address()+" members=4")

	require.NoError(t, b.Stop(etcdtest.Context(t)))
	log.await(t, "a node left: address="+b.address()+" members=3")
	_, err := etcd.Client().Revoke(etcdtest.Context(t), c.Session().ID())
	require.NoError(t, err)
	log.await(t, "a node was lost: address="+c.address()+" ") // it may be back in the same look
	require.NoError(t, a.Stop(etcdtest.Context(t)))

	for _, self := range []string{first.address(), a.address()} {
		for _, event := range []string{"joined", "left", "was lost"} {
			require.NotContains(t, log.String(), event+": address="+self, "itself, or there before it")
		}
	}
	require.NotContains(t, log.String(), "left: address="+c.address())
	require.NotContains(t, log.String(), "was lost: address="+b.address())
}

// A look may come too late to see that it was stopping; a new incarnation is another
// member; a record that changes is neither coming nor going.
func TestComings(t *testing.T) {
	log := &logBuffer{}
	c := newComings("self:1", log.logger())
	member := func(address string, incarnation int64, stopping bool) *state.Member {
		return &state.Member{Address: address, Incarnation: incarnation, Record: state.Record{Stopping: stopping}}
	}
	at := func(revision int64, members ...*state.Member) *state.Snapshot {
		return &state.Snapshot{Revision: revision, Members: members}
	}
	self := member("self:1", 1, false)
	drained := member("b:1", 3, false)
	drained.Draining = true
	one := at(10, member("a:1", 2, false), member("b:1", 3, false), self)
	marked := at(11, member("a:1", 2, true), drained, self)
	gone := at(12, member("b:1", 12, false), self)

	require.False(t, c.concerns(one, one))
	require.False(t, c.concerns(one, marked), "a record alone is not worth a look")
	require.True(t, c.concerns(marked, gone))
	c.tell(one, gone)
	require.Contains(t, log.String(), "a node left: address=a:1 members=2")
	require.Contains(t, log.String(), "a node was lost: address=b:1 members=2")
	require.Contains(t, log.String(), "a node joined: address=b:1 members=2")
	require.Empty(t, c.stopping, "nothing is remembered of who is gone")
	lines := strings.Count(log.String(), "\n")
	c.tell(gone, at(13, gone.Members[0]))
	c.tell(at(13, gone.Members[0]), gone)
	require.Equal(t, lines, strings.Count(log.String(), "\n"), "not about itself")
}
