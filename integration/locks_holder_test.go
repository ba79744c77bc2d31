//go:build unix

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/node"
)

// holderEnv makes a copy of the test binary one that wants a lock; it holds holderConfig.
const holderEnv = "GOVERSE_INTEGRATION_LOCK_HOLDER"

type holderConfig struct {
	Advertise, Etcd, SQL string
	TTL                  int
	Unfenced             bool // what is written is written under no condition
}

const (
	theLock = "it"
	// written is the key that holders write.
	written    = "/written"
	writeEvery = 5 * time.Millisecond
	// oneWrite bounds one write.
	oneWrite = time.Second
)

// What a holder is asked on its standard input, a line each; it answers with a line.
const (
	askAcquire = "acquire" // and write from then on
	askHolder  = "status"
	askRelease = "release"
)

// holderStatus is what a holder says of its lock and of what it wrote.
type holderStatus struct {
	Token     int64
	Valid     bool
	Ended     string // why the lock's context did; "" if it has not
	Lost      bool   // it ended by the loss of the lock
	Accepted  map[string]int
	Refused   map[string]int
	Released  bool
	ReleaseOf string // Release's error
}

// holder is what runs in such a process: one who writes as long as it is not refused, and does
// not look whether it still holds the lock.
type holder struct {
	cfg    holderConfig
	client *clientv3.Client
	conn   *pgx.Conn // of work alone, once that has begun
	wg     sync.WaitGroup

	mu     sync.Mutex
	held   lock.Held
	status holderStatus
}

func runHolder(encoded string) int {
	if err := holding(encoded); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func holding(encoded string) (err error) {
	h := &holder{status: holderStatus{Accepted: map[string]int{}, Refused: map[string]int{}}}
	if err := json.Unmarshal([]byte(encoded), &h.cfg); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	ccfg := cluster.Config{EtcdAddress: h.cfg.Etcd, LeaderElectionTTL: h.cfg.TTL}
	if ccfg.Client, err = cluster.NewEtcdClient(ccfg); err != nil {
		return err
	}
	h.client = ccfg.Client
	defer func() { _ = h.client.Close() }() // its error is that its context was cancelled
	if h.conn, err = pgx.Connect(ctx, h.cfg.SQL); err != nil {
		return err
	}
	defer func() { _ = h.conn.Close(context.Background()) }()
	n, err := node.NewNode(node.Config{AdvertiseAddress: h.cfg.Advertise})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(ccfg, n)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	fmt.Println("started")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); { // until the test closes it
		h.answer(ctx, c, lines.Text())
	}
	cancel()
	h.wg.Wait()
	stopping, cancelStop := context.WithTimeout(context.Background(), patience)
	defer cancelStop()
	return c.Stop(stopping)
}

func (h *holder) answer(ctx context.Context, c *cluster.Cluster, question string) {
	switch question {
	case askAcquire:
		held, err := c.Locks().Acquire(ctx, theLock)
		if err != nil {
			fmt.Println(err)
			return
		}
		h.mu.Lock()
		h.held, h.status.Token = held, held.Token()
		h.mu.Unlock()
		h.wg.Go(func() { h.work(ctx, held) })
	case askRelease:
		err := h.held.Release(ctx)
		h.mu.Lock()
		h.status.Released = true
		if err != nil {
			h.status.ReleaseOf = err.Error()
			h.status.Lost = errors.Is(err, lock.ErrLost)
		}
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held != nil {
		h.status.Valid = h.held.Valid()
		if cause := context.Cause(h.held.Context()); cause != nil {
			h.status.Ended = cause.Error()
		}
	}
	text, err := json.Marshal(h.status)
	if err != nil {
		text = []byte(err.Error())
	}
	fmt.Printf("%s\n", text)
}

// work writes to etcd and to PostgreSQL, to each until it refuses.
func (h *holder) work(ctx context.Context, held lock.Held) {
	stores := map[string]func(context.Context, lock.Held) (bool, error){"etcd": h.toEtcd, "sql": h.toSQL}
	for tick := time.NewTicker(writeEvery); len(stores) > 0; {
		for name, write := range stores {
			attempt, cancel := context.WithTimeout(ctx, oneWrite)
			accepted, err := write(attempt, held)
			cancel()
			h.mu.Lock()
			switch {
			case err != nil && name == "sql": // the pause was in the middle of it
				fmt.Fprintln(os.Stderr, err)
				h.reconnect(ctx)
			case err != nil: // etcd's client tries again
			case accepted:
				h.status.Accepted[name]++
			default:
				h.status.Refused[name]++
				delete(stores, name)
			}
			h.mu.Unlock()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// reconnect replaces a connection that a request was broken off on: it is of no use any more.
func (h *holder) reconnect(ctx context.Context) {
	_ = h.conn.Close(ctx)
	if conn, err := pgx.Connect(ctx, h.cfg.SQL); err == nil {
		h.conn = conn
	}
}

// toEtcd writes under the lock's guard, in one transaction.
func (h *holder) toEtcd(ctx context.Context, held lock.Held) (bool, error) {
	txn := h.client.Txn(ctx)
	if !h.cfg.Unfenced {
		txn = txn.If(held.Guard()...)
	}
	resp, err := txn.Then(clientv3.OpPut(written, fmt.Sprint(held.Token()))).Commit()
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}

const (
	schema = `CREATE TABLE guarded (name text PRIMARY KEY, token bigint NOT NULL, value bigint NOT NULL);
		CREATE TABLE written (n bigserial PRIMARY KEY, token bigint NOT NULL);
		INSERT INTO guarded VALUES ('it', 0, 0)`
	// fenced writes unless a greater token was seen, and puts down that it has.
	fenced = `WITH done AS (UPDATE guarded SET value = value + 1, token = $1 WHERE name = 'it'
		AND token <= $1 RETURNING token)
		INSERT INTO written (token) SELECT token FROM done`
	unfenced = `WITH done AS (UPDATE guarded SET value = value + 1, token = $1 WHERE name = 'it' RETURNING token)
		INSERT INTO written (token) SELECT token FROM done`
)

// toSQL writes unless the row has seen a greater token.
func (h *holder) toSQL(ctx context.Context, held lock.Held) (bool, error) {
	statement := fenced
	if h.cfg.Unfenced {
		statement = unfenced
	}
	done, err := h.conn.Exec(ctx, statement, held.Token())
	return done.RowsAffected() == 1, err
}

// holderProcess is a holder as the test sees it.
type holderProcess struct {
	*fault.Process
	t       *testing.T
	in      *os.File
	answers chan string
}

// startHolder starts one; it ends with the test.
func startHolder(t *testing.T, cfg holderConfig) *holderProcess {
	t.Helper()
	encoded, err := json.Marshal(cfg)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), holderEnv+"="+string(encoded))
	stdin, in, err := os.Pipe()
	require.NoError(t, err)
	out, stdout, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout = stdin, stdout
	p, err := fault.StartProcess(cmd)
	_, _ = stdin.Close(), stdout.Close() // the process has its own
	require.NoError(t, err)
	h := &holderProcess{Process: p, t: t, in: in, answers: make(chan string, 10)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(h.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.answers <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = h.in.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		code, err := h.Exit(ctx)
		if err != nil || code != 0 {
			t.Errorf("the holder %s: exit code %d, %v\n%s", cfg.Advertise, code, err, h.Output())
		}
		require.NoError(t, h.Close())
		<-read
		_ = out.Close()
	})
	require.Equal(t, "started", h.said())
	return h
}

// said is what the process says next.
func (h *holderProcess) said() string {
	select {
	case s := <-h.answers:
		return s
	case <-time.After(patience):
		return "nothing, " + h.State()
	}
}

func (h *holderProcess) ask(question string) {
	h.t.Helper()
	_, err := fmt.Fprintln(h.in, question)
	require.NoError(h.t, err, h.State())
}

func (h *holderProcess) answer() (st holderStatus) {
	h.t.Helper()
	said := h.said()
	require.NoError(h.t, json.Unmarshal([]byte(said), &st), "%s\n%s", said, h.Output())
	return st
}

func (h *holderProcess) state() holderStatus {
	h.t.Helper()
	h.ask(askHolder)
	return h.answer()
}
