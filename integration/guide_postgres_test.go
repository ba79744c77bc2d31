//go:build unix

package integration

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
)

// published matches a line of the guide's program.
var published = regexp.MustCompile(`published \{"n": (\d+)\}`)

// guideParts returns the whole program that docs/guides/postgres.md shows, the queries that look into such a program,
// and those for nodes.
func guideParts(t *testing.T) (program, queries, ofNodes string) {
	t.Helper()
	text, err := os.ReadFile("../docs/guides/postgres.md")
	require.NoError(t, err)
	for _, part := range strings.Split(string(text), "\n```")[1:] {
		if code, found := strings.CutPrefix(part, "go\n"); found && strings.HasPrefix(code, "package main\n") {
			program = code + "\n"
		}
		code, found := strings.CutPrefix(part, "sql\n")
		switch {
		case found && strings.Contains(code, "from goverse.session"):
			queries = code + "\n"
		case found && strings.Contains(code, "from goverse.node"):
			ofNodes = code + "\n"
		}
	}
	require.NotEmpty(t, program)
	require.NotEmpty(t, queries)
	require.NotEmpty(t, ofNodes)
	return program, queries, ofNodes
}

// runQueries runs queries of the guide, none of which may fail, and returns their results.
func runQueries(t *testing.T, conn *pgx.Conn, queries string) []*pgconn.Result {
	t.Helper()
	results, err := conn.PgConn().Exec(t.Context(), queries).ReadAll()
	require.NoError(t, err)
	require.Len(t, results, strings.Count(queries, ";\n"))
	return results
}

// The program of the guide does what the guide says, and the queries of the guide work beside it.
func TestGuideToPostgres(t *testing.T) {
	t.Parallel()
	program, queries, _ := guideParts(t)
	_, outbox, _ := strings.Cut(program, "\nfunc publishOutbox(")
	outbox, _, _ = strings.Cut(outbox, "\n}\n")
	require.LessOrEqual(t, strings.Count(outbox, "\n")+2, 25, "an outbox takes no more lines, beside its handler")
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "shop")
	require.NoError(t, os.WriteFile(source, []byte(program), 0o600))
	out, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput()
	require.NoError(t, err, string(out))

	database := kit.Database(t)
	addresses := kit.Addresses(t, 2)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	var copies []*procs.Process
	shown := func() (all []string) {
		for _, p := range copies {
			for _, found := range published.FindAllStringSubmatch(p.Output(), -1) {
				all = append(all, found[1])
			}
		}
		return all
	}
	orders := 0
	order := func(at int) {
		t.Helper()
		orders++
		procs.Await(t, patience, "an order is taken", func() error {
			resp, err := client.Post("http://"+addresses[at]+"/orders", "application/json",
				strings.NewReader(fmt.Sprintf(`{"n": %d}`, orders)))
			if err != nil {
				return err
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", resp.StatusCode)
			}
			return nil
		})
		procs.Await(t, patience, "it is published", func() error {
			if got := shown(); len(got) < orders {
				return fmt.Errorf("published are %v", got)
			}
			return nil
		})
	}
	reports := func(p *procs.Process) {
		t.Helper()
		p.AwaitOutput(t, patience, "report")
	}
	start := func(at int) *procs.Process {
		p := kit.Start(t, "shop "+addresses[at], binary, addresses[at:at+1], []string{"DATABASE_URL=" + database})
		copies = append(copies, p)
		return p
	}

	first := start(0)
	order(0)
	second := start(1)
	order(1)
	order(0)
	reports(first) // it was alone, so it leads
	require.NotContains(t, second.Output(), "report")

	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	results := runQueries(t, conn, queries)
	require.Len(t, results[0].Rows, 2, "processes")
	require.Len(t, results[1].Rows, 4, "a leader and a holder, and one behind each")
	lag := results[2].Rows[0]
	require.Equal(t, "0", string(lag[len(lag)-1]))
	require.NoError(t, conn.Close(t.Context()))

	first.Kill(t)
	order(1) // once, although the first one died
	reports(second)
	third := start(0)
	second.Signal(t, syscall.SIGTERM)
	require.Zero(t, second.Exit(t, patience))
	order(0)
	reports(third)
	third.Signal(t, syscall.SIGTERM)
	require.Zero(t, third.Exit(t, patience))
	for i, n := range shown() {
		require.Equal(t, fmt.Sprint(i+1), n, "once, and in order")
	}
}
