//go:build unix

package claims

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

var faultsFor = flag.Duration("faults.for", 6*time.Second, "how long TestFaults goes on")

// findOverlap returns two terms that were valid at one time although one of them is exclusive, or two of one name of
// which the later one has the smaller token.
func findOverlap(all []term) string {
	slices.SortFunc(all, func(a, b term) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.first, b.first)) })
	for i, a := range all {
		for _, b := range all[i+1:] {
			if b.name != a.name {
				break
			}
			if b.first <= a.last && !(a.shared == 1 && b.shared == 1) {
				return fmt.Sprintf("at one time: %+v and %+v", a, b)
			}
			if b.first > a.last && b.token < a.token && !(a.shared == 1 && b.shared == 1) {
				return fmt.Sprintf("the token shrank: %+v, then %+v", a, b)
			}
		}
	}
	return ""
}

func TestFindOverlap(t *testing.T) {
	ok := []term{{1, 5, 0, 10, 20}, {1, 6, 0, 21, 30}, {2, 1, 0, 15, 15}, {1, 7, 1, 31, 40}, {1, 8, 1, 35, 50}}
	require.Empty(t, findOverlap(ok))
	require.Contains(t, findOverlap(append(ok, term{1, 9, 0, 20, 20})), "at one time")
	require.Contains(t, findOverlap(append(ok, term{1, 9, 0, 45, 60})), "at one time")
	require.Contains(t, findOverlap(append(ok, term{1, 4, 0, 60, 60})), "the token shrank")
}

// pool is a number of workers that faults hit.
type pool struct {
	t       *testing.T
	db      *pgserver.Server
	dir     string
	workers []*worker
	files   []string
	admin   *pgx.Conn
	count   map[string]int
}

type worker struct {
	*fault.Process
	in io.Closer
}

const faultsDeadline = 600 * time.Millisecond

func (p *pool) start(i int) {
	p.t.Helper()
	file := filepath.Join(p.dir, fmt.Sprint(len(p.files)))
	p.files = append(p.files, file)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerURL+"="+p.db.URL(), workerFile+"="+file,
		workerDeadline+"="+faultsDeadline.String())
	in, err := cmd.StdinPipe()
	require.NoError(p.t, err)
	run, err := fault.StartProcess(cmd)
	require.NoError(p.t, err)
	p.workers[i] = &worker{run, in}
}

// terminate ends the server processes of some connections.
func (p *pool) terminate() error {
	if p.admin == nil || p.admin.IsClosed() {
		conn, err := pgx.Connect(p.t.Context(), p.db.URL())
		if err != nil {
			return err
		}
		p.admin = conn
	}
	_, err := p.admin.Exec(p.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.2`)
	return err
}

// hit lets one fault happen.
func (p *pool) hit() {
	i := rand.IntN(len(p.workers))
	w, kind := p.workers[i], ""
	switch n := rand.IntN(60); {
	case n < 30:
		kind = "kill"
		_, _ = w.Signal(syscall.SIGKILL)
		<-w.Done()
		p.start(i)
	case n < 43:
		kind = "stop"
		pause := time.Duration(rand.Int64N(int64(3 * faultsDeadline)))
		_, err := w.Freeze()
		require.NoError(p.t, err, w.Output())
		time.AfterFunc(pause, func() { _, _ = w.Thaw() })
	case n < 57:
		kind = "terminate"
		if p.terminate() != nil {
			kind = "terminate in vain"
		}
	case n < 58:
		kind = "restart fast"
		require.NoError(p.t, p.db.RestartFast())
	case n < 59:
		kind = "restart immediately"
		require.NoError(p.t, p.db.RestartImmediately())
	default:
		kind = "kill the server"
		p.db.Kill()
		require.NoError(p.t, p.db.Restart())
	}
	p.count[kind]++
}

// Processes claim a few names while processes and the server are killed, stopped and restarted, and connections cut. No
// two hold a name at one time, tokens grow, and after the last fault every name is granted.
func TestFaults(t *testing.T) {
	p := &pool{t: t, db: pgserver.StartForTest(t), dir: t.TempDir(), workers: make([]*worker, 6), count: map[string]int{}}
	conn, err := pgx.Connect(t.Context(), p.db.URL())
	require.NoError(t, err)
	require.NoError(t, CreateSchema(t.Context(), conn, DefaultSchema))
	require.NoError(t, conn.Close(t.Context()))
	for i := range p.workers {
		p.start(i)
	}
	t.Cleanup(func() {
		for _, w := range p.workers {
			_, _ = w.Signal(syscall.SIGKILL)
			<-w.Done()
		}
	})
	for end := time.Now().Add(*faultsFor); time.Now().Before(end); {
		p.hit()
		pause := time.NewTimer(time.Duration(rand.Int64N(int64(faultsDeadline / 2))))
		<-pause.C
	}
	if p.admin != nil {
		_ = p.admin.Close(context.Background())
	}
	p.requireAllGranted()
	var all []term
	for _, file := range p.files {
		w, err := openWitness(file)
		require.NoError(t, err)
		all = append(all, w.terms()...)
		require.NoError(t, w.close())
	}
	t.Logf("%d grants of %d processes; %v", len(all), len(p.files), p.count)
	require.Empty(t, findOverlap(all))
}

// requireAllGranted fails unless each name is granted soon, to a process that no fault hits.
func (p *pool) requireAllGranted() {
	url := p.db.URL()
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*patience)
	defer cancel()
	var k *Keeper
	require.Eventually(p.t, func() (ok bool) {
		var err error
		k, err = Open(ctx, config(url, steady, &logtest.Buffer{}))
		return err == nil
	}, patience, time.Millisecond)
	for i := range workerNames {
		c, err := k.Acquire(ctx, Spec{Name: fmt.Sprint("name ", i)})
		require.NoError(p.t, err)
		_, err = c.Release(ctx)
		require.NoError(p.t, err)
	}
	require.NoError(p.t, k.Close(ctx))
}
