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

// holderEnv makes a copy of the test binary a process that acquires a lock. It holds a holderConfig.
const holderEnv = "GOVERSE_INTEGRATION_LOCK_HOLDER"

type holderConfig struct {
	Advertise, Etcd, SQL string
	TTL                  int
	Unfenced             bool // writes have no condition
}

const (
	lockName = "it"
	// writtenKey is the key that holders write.
	writtenKey = "/written"
	writeEvery = 5 * time.Millisecond
	// writeTimeout limits one write.
	writeTimeout = time.Second
)

// These are the requests that a holder accepts on its standard input, one per line; it answers with a line.
const (
	askAcquire = "acquire" // and write from then on
	askHolder  = "status"
	askRelease = "release"
)

// holderStatus describes a holder's lock and its writes.
type holderStatus struct {
	Token     int64
	Valid     bool
	Ended     string // the cause of the end of the lock's context; "" if it has not ended
	Lost      bool   // the loss of the lock ended it
	Accepted  map[string]int
	Refused   map[string]int
	Released  bool
	ReleaseOf string // the error of Release
}

// holder runs in such a process. It writes until it is refused, and does not check whether it still holds the
// lock.
type holder struct {
	cfg    holderConfig
	client *clientv3.Client
	conn   *pgx.Conn // used only by work, once that has started
	wg     sync.WaitGroup

	mu     sync.Mutex
	held   lock.Held
	status holderStatus
}

func runHolder(encoded string) int {
	if err := runHolderNode(encoded); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runHolderNode(encoded string) (err error) {
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
	defer func() { _ = h.client.Close() }() // the error reports only the cancelled context
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
		held, err := c.Locks().Acquire(ctx, lockName)
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
	stores := map[string]func(context.Context, lock.Held) (bool, error){"etcd": h.writeToEtcd, "sql": h.writeToSQL}
	for tick := time.NewTicker(writeEvery); len(stores) > 0; {
		for name, write := range stores {
			attempt, cancel := context.WithTimeout(ctx, writeTimeout)
			accepted, err := write(attempt, held)
			cancel()
			h.mu.Lock()
			switch {
			case err != nil && name == "sql": // it was paused during the write
				fmt.Fprintln(os.Stderr, err)
				h.reconnect(ctx)
			case err != nil: // etcd's client retries
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

// reconnect replaces a connection with an interrupted request, which is unusable.
func (h *holder) reconnect(ctx context.Context) {
	_ = h.conn.Close(ctx)
	if conn, err := pgx.Connect(ctx, h.cfg.SQL); err == nil {
		h.conn = conn
	}
}

// writeToEtcd writes under the lock's guard, in one transaction.
func (h *holder) writeToEtcd(ctx context.Context, held lock.Held) (bool, error) {
	txn := h.client.Txn(ctx)
	if !h.cfg.Unfenced {
		txn = txn.If(held.Guard()...)
	}
	resp, err := txn.Then(clientv3.OpPut(writtenKey, fmt.Sprint(held.Token()))).Commit()
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}

const (
	schema = `CREATE TABLE guarded (name text PRIMARY KEY, token bigint NOT NULL, value bigint NOT NULL);
		CREATE TABLE written (n bigserial PRIMARY KEY, token bigint NOT NULL);
		INSERT INTO guarded VALUES ('it', 0, 0)`
	// fenced writes unless a greater token was seen, and records the token.
	fenced = `WITH done AS (UPDATE guarded SET value = value + 1, token = $1 WHERE name = 'it'
		AND token <= $1 RETURNING token)
		INSERT INTO written (token) SELECT token FROM done`
	unfenced = `WITH done AS (UPDATE guarded SET value = value + 1, token = $1 WHERE name = 'it' RETURNING token)
		INSERT INTO written (token) SELECT token FROM done`
)

// writeToSQL writes unless the row has seen a greater token.
func (h *holder) writeToSQL(ctx context.Context, held lock.Held) (bool, error) {
	statement := fenced
	if h.cfg.Unfenced {
		statement = unfenced
	}
	done, err := h.conn.Exec(ctx, statement, held.Token())
	return done.RowsAffected() == 1, err
}

// holderProcess is a holder as seen by the test.
type holderProcess struct {
	*fault.Process
	t       *testing.T
	in      *os.File
	answers chan string
}

// startHolder starts a holder, which ends with the test.
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
	_, _ = stdin.Close(), stdout.Close() // the process has its own copy
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

// said returns the next line of the process's output.
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
