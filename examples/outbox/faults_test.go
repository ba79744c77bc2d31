//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// Three publishers run while writers write. Requests and answers are lost, and the sink dies. The leading
// publisher is killed after the sink has received an event but before the publisher knows it, or it is frozen
// until another one publishes, with a request of its own in flight that arrives then. Each committed row
// arrives once, in order.
func (s *testBed) faults(t *testing.T) {
	s.faultsOf(t, "-etcd", etcdtest.Start(t).Endpoint(), "-ttl", "1")
}

func (s *testBed) faultsAlone(t *testing.T) { s.faultsOf(t, "-alone", "-ttl", "1") }

func (s *testBed) faultsOf(t *testing.T, coordination ...string) {
	db, url := s.database(t)

	receiver, to := startSink(t, url)
	way := &proxy{client: &http.Client{}, sink: to}
	defer way.client.CloseIdleConnections()
	server := httptest.NewServer(way)
	defer server.Close()

	var copies []*fault.Process
	start := func() {
		copies = append(copies, trial.Program(t, append([]string{"publish", "-postgres", url, "-sink", server.URL},
			coordination...)...))
	}
	// leading returns the copy with the given token. Its log may arrive later than what it publishes.
	leading := func(token int64) (p *fault.Process) {
		line := fmt.Sprintf("processor started: processor=outbox token=%d ", token)
		require.Eventually(t, func() bool {
			i := slices.IndexFunc(copies, func(p *fault.Process) bool { return strings.Contains(p.Output(), line) })
			if i >= 0 {
				p = copies[i]
			}
			return i >= 0
		}, patience, 5*time.Millisecond, "nobody said %q", line)
		return p
	}
	// another waits until a publisher with a larger token has published.
	another := func(token int64) {
		require.Eventually(t, func() (yes bool) {
			way.do(func(p *proxy) { yes = p.largest > token })
			return yes
		}, patience, 5*time.Millisecond, "nobody publishes after the one with token %d", token)
	}
	await := func(h *held) int64 {
		select {
		case token := <-h.token:
			return token
		case <-time.After(patience):
			t.Fatal("nobody publishes")
			return 0
		}
	}
	end := trial.Meanwhile(t, 3, 25*time.Millisecond, func(ctx context.Context) error { return write(ctx, db) })
	for range 3 {
		start()
	}
	const kills, freezes = 3, 2
	for range kills {
		h := way.hold(true)
		token := await(h)
		_, err := leading(token).Kill()
		require.NoError(t, err)
		close(h.release)
		start()
		another(token)
	}
	_, err := receiver.Kill()
	require.NoError(t, err)
	receiver, to = startSink(t, url)
	way.do(func(p *proxy) { p.sink = to })
	for range freezes {
		h := way.hold(false)
		token := await(h)
		frozen := leading(token)
		_, err := frozen.Freeze()
		require.NoError(t, err)
		another(token)
		close(h.release)
		require.Equal(t, http.StatusConflict, <-h.answer, "the request that came late")
		_, err = frozen.Thaw()
		require.NoError(t, err)
	}
	end()

	assert.Eventually(t, func() (all bool) {
		require.NoError(t, db.QueryRow(etcdtest.Context(t),
			"select (select count(*) from outbox) <= (select count(*) from received)").Scan(&all))
		return all
	}, patience, 20*time.Millisecond, "not all of it arrives")
	rows := committed(t, db)
	require.NoError(t, judge(rows, column(t, db, "select event from received order by number")))
	// A sink that accepted every request would have stored some events twice; the judge detects that.
	var passed []string
	way.do(func(p *proxy) { passed = slices.Clone(p.passed) })
	require.ErrorContains(t, judge(rows, passed), "arrived twice")
	var refused int
	require.NoError(t, db.QueryRow(etcdtest.Context(t), "select refused from received_from").Scan(&refused))
	require.GreaterOrEqual(t, refused, freezes)
	t.Logf("%d rows, sent %d times; %d refused", len(rows), len(passed), refused)

	trial.Stop(t, append(copies, receiver)...)
}

// A database that stops responding is reported, and does not keep a publisher from ending.
func (s *testBed) silent(t *testing.T) {
	_, url := s.database(t)
	relay, err := fault.NewRelay(s.server.Address())
	require.NoError(t, err)
	defer relay.Close()
	etcd := etcdtest.Start(t)
	p := trial.Program(t, "publish", "-postgres", strings.Replace(url, s.server.Address(), relay.Address(), 1), "-etcd",
		etcd.Endpoint())
	says := func(line string) {
		require.Eventually(t, func() bool { return strings.Contains(p.Output(), line) }, patience, 5*time.Millisecond, line)
	}
	require.Eventually(t, func() (reads bool) {
		require.NoError(t, s.admin.QueryRow(etcdtest.Context(t), `select exists (select from pg_stat_activity
where state = 'idle' and query like '%from "outbox"%' and pid <> pg_backend_pid())`).Scan(&reads))
		return reads
	}, patience, 5*time.Millisecond)
	relay.Blackhole(fault.Both)
	says("could not read the source")
	trial.StopWithin(t, patience/2, p)
}

// write runs one transaction: fast or slow, committed or rolled back.
func write(ctx context.Context, db *pgxpool.Pool) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		for range 1 + rand.IntN(3) {
			if err := placeOrder(ctx, tx, "ann", rand.Int64N(10000)); err != nil {
				return err
			}
			if rand.IntN(8) == 0 {
				if _, err := tx.Exec(ctx, "select pg_sleep(random() / 20)"); err != nil {
					return err
				}
			}
		}
		if rand.IntN(5) == 0 {
			return errChanged
		}
		return nil
	})
	if errors.Is(err, errChanged) {
		return nil
	}
	return err
}

func startSink(t *testing.T, url string) (p *fault.Process, at string) {
	t.Helper()
	p = trial.Program(t, "sink", "-postgres", url, "-listen", "127.0.0.1:0")
	says := regexp.MustCompile(`receiving: url=(\S+)`)
	require.Eventually(t, func() bool { return says.MatchString(p.Output()) }, patience, 5*time.Millisecond)
	return p, says.FindStringSubmatch(p.Output())[1]
}
