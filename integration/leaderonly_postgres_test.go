//go:build unix

package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/goverse/goverse/integration/internal/procs"
)

// polite is the rate of clients that repeat a write after the time of Retry-After. While no controller leads, each
// write waits in nginx, which needs several connections for it.
var polite = rate{every: 20 * time.Millisecond, repeat: time.Second}

const composeFile = "../deploy/docker/compose.postgres.yaml"

// composed has the commands of compose.postgres.yaml. deploy's own tests check the file as a whole.
type composed struct {
	Services map[string]struct {
		Command     []string
		Environment map[string]string
		Networks    yaml.Node
	}
}

// controllersOnPostgres are the processes of compose.postgres.yaml: PostgreSQL, three controllers and nginx.
type controllersOnPostgres struct {
	*testing.T
	file      composed
	database  string
	http      [3]string
	processes [3]*procs.Process
	client    *http.Client
}

func startControllersOnPostgres(t *testing.T) *controllersOnPostgres {
	t.Helper()
	c := &controllersOnPostgres{T: t, database: kit.Database(t), http: [3]string(kit.Addresses(t, 3)),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}}
	text, err := os.ReadFile(composeFile)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &c.file))
	for i := range c.processes {
		c.start(i)
	}
	for i := range c.processes {
		c.await(i, "/readyz", http.StatusOK)
	}
	return c
}

// start runs a controller's command of the Compose file, at addresses of this machine.
func (c *controllersOnPostgres) start(i int) {
	c.Helper()
	name := fmt.Sprint("controller", i+1)
	service := c.file.Services[name]
	require.NotEmpty(c.T, service.Environment["DATABASE_URL"])
	args := slices.Clone(service.Command)
	for n, arg := range args {
		if strings.HasSuffix(arg, ":48001") {
			args[n] = c.http[i]
		}
	}
	c.processes[i] = kit.Start(c.T, name, kit.ControllerPath(c.T), args, []string{"DATABASE_URL=" + c.database})
}

// await waits until a controller answers a probe so.
func (c *controllersOnPostgres) await(i int, path string, want int) {
	c.Helper()
	procs.Await(c.T, patience, path+" of "+c.http[i], func() error {
		resp, err := c.client.Get("http://" + c.http[i] + path)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	})
}

// leader waits until a controller other than the given one leads, and returns its index.
func (c *controllersOnPostgres) leader(former int) (leads int) {
	c.Helper()
	procs.Await(c.T, patience, "a leader", func() error {
		for i, address := range c.http {
			resp, err := c.client.Get("http://" + address + "/leaderz")
			if err != nil {
				continue // it does not run
			}
			_ = resp.Body.Close()
			if leads = i; resp.StatusCode == http.StatusOK && i != former {
				return nil
			}
		}
		return fmt.Errorf("none leads")
	})
	return leads
}

// startNginx runs nginx's command of the Compose file, at addresses of this machine. It returns nginx's address.
func (c *controllersOnPostgres) startNginx() (address string) {
	c.Helper()
	const from, to = "/etc/nginx/goverse.conf", "/etc/nginx/conf.d/default.conf"
	command := c.file.Services["nginx"].Command
	require.Equal(c.T, []string{"sh", "-c"}, command[:2])
	edit, run, _ := strings.Cut(command[2], " && ")
	require.Equal(c.T, "exec nginx -g 'daemon off;'", strings.TrimSpace(run)) // kit.Nginx does so
	edited := filepath.Join(c.T.TempDir(), "default.conf")
	edit = strings.NewReplacer(from, "../deploy/nginx/goverse.conf", to, edited).Replace(edit)
	out, err := exec.Command("sh", "-c", edit).CombinedOutput()
	require.NoError(c.T, err, string(out))

	own := kit.Addresses(c.T, 4)
	replace := map[string]string{"listen 8080;": "listen " + own[3] + ";"}
	for i, door := range []string{"48901", "48902", "48903"} {
		var networks struct {
			Web struct {
				Address string `yaml:"ipv4_address"`
			}
		}
		node := c.file.Services[fmt.Sprint("controller", i+1)].Networks
		require.NoError(c.T, node.Decode(&networks))
		replace[networks.Web.Address+":48001"] = c.http[i]
		replace[door] = portOf(c.T, own[i])
	}
	kit.Nginx(c.T, edited, replace)
	procs.Await(c.T, patience, "nginx gets requests through", func() error {
		resp, err := c.client.Get("http://" + own[3] + "/readyz") // its health check
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	})
	return own[3]
}

// Clients write through nginx while leaders are stopped and killed. The writes that fail are those that the README of
// the controller and the configuration of nginx name: those under way on a process that ends (502), and those that come
// while no controller leads (503). All are carried out once when they are sent again.
func TestComposeWithPostgres(t *testing.T) {
	t.Parallel()
	c := startControllersOnPostgres(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.database)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, journalSQL)
	require.NoError(t, err)

	w := startWritersAt(t, polite, "http://"+c.startNginx())
	w.wrote(100)
	require.Empty(t, w.failed())
	_, _, queries := guideParts(t)
	tables := runQueries(t, conn, queries)
	require.Len(t, tables[0].Rows, 3, "nodes")
	require.Len(t, tables[1].Rows, 1, "the lease")
	require.NotEmpty(t, tables[2].Rows, "events")
	var ends, vacancies []ending
	for range *leaderonlyStops {
		at := c.leader(-1)
		e := ending{from: c.processes[at].Signal(t, syscall.SIGTERM)}
		require.Zero(t, c.processes[at].Exit(t, 30*time.Second))
		e.to = time.Now()
		ends = append(ends, e)
		w.wrote(40)
		c.start(at)
		c.await(at, "/readyz", http.StatusOK)
		w.wrote(20)
	}
	for range *leaderonlyKills {
		at := c.leader(-1)
		e := ending{from: time.Now()}
		c.processes[at].Kill(t)
		e.to = time.Now().Add(closeNoticeTime)
		ends = append(ends, e)
		c.leader(at)
		vacancy := ending{from: e.from, to: time.Now()}
		t.Logf("another controller leads %v after the kill", vacancy.to.Sub(vacancy.from).Round(time.Millisecond))
		vacancies = append(vacancies, vacancy)
		w.wrote(100)
		c.start(at)
		c.await(at, "/readyz", http.StatusOK)
		w.wrote(20)
	}
	w.finish()
	w.report(fmt.Sprintf("nginx and PostgreSQL, %d stops, %d kills", *leaderonlyStops, *leaderonlyKills))
	unserved := 0
	for _, f := range w.failed() {
		during := ends
		if !f.unknown {
			unserved++
			require.Equal(t, "503", f.what, "%+v", f)
			during = vacancies
		}
		overlaps := func(e ending) bool { return f.from.Before(e.to) && f.to.After(e.from) }
		require.True(t, slices.ContainsFunc(during, overlaps),
			"a write fails only while its process ends, or no controller leads: %+v", f)
	}
	t.Logf("%d writes failed with 503, while no controller led", unserved)
	require.NoError(t, judgeJournal(readJournal(t, conn), w.acknowledged))
}
