//go:build unix

package postgres_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/automation/postgres"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// The environment that makes this program a worker of TestKilledProcesses.
const workerURL, workerTable = "GOVERSE_AUTOMATION_URL", "GOVERSE_AUTOMATION_TABLE"

// work executes jobs until the process is killed.
func work(url string) error {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return err
	}
	j := &jobs{table: os.Getenv(workerTable), effects: "effects_of_" + os.Getenv(workerTable)}
	source, err := postgres.NewSource(jobsConfig(pool, j.table))
	if err != nil {
		return err
	}
	a, err := automation.New(quick(automation.Config[int]{Name: j.table, Source: source, Concurrency: 3,
		Execute: func(ctx context.Context, item automation.Item[int]) error {
			if err := j.execute(ctx, item); err != nil {
				return err
			}
			// The kill comes at any point of a job.
			_, err := postgres.Tx(ctx).Exec(ctx, "select pg_sleep($1)", rand.Float64()/200)
			return err
		}}))
	if err != nil {
		return err
	}
	return a.Run(context.Background())
}

// However often processes are killed, each job takes effect once.
func TestKilledProcesses(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	pool, err := pgxpool.New(context.Background(), db.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	const n = 1500
	j := (&testBed{server: db, pool: pool}).newJobs(t, n)
	_ = j.source() // creates the table of failures
	workers := make([]*exec.Cmd, 2)
	start := func(i int) {
		workers[i] = exec.CommandContext(t.Context(), os.Args[0])
		workers[i].Env = append(os.Environ(), workerURL+"="+db.URL(), workerTable+"="+j.table)
		require.NoError(t, workers[i].Start())
	}
	kill := func(i int) {
		require.NoError(t, workers[i].Process.Kill())
		_ = workers[i].Wait()
	}
	start(0)
	start(1)
	kills, last := 0, n
	for deadline := time.Now().Add(2 * patience); j.left() > 0; {
		require.Less(t, time.Now(), deadline, "%d jobs are left", j.left())
		if left := j.left(); last-left >= n/20 { // after some progress
			last = left
			kill(kills % 2)
			start(kills % 2)
			kills++
		}
	}
	kill(0)
	kill(1)
	j.requireEffects(n)
	require.Greater(t, kills, 5)
	t.Logf("%d kills", kills)
}
