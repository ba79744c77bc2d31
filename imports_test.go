package goverse

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/goverse/goverse"

// allowed is the house: which package may import which others of ours, tests
// apart. What is not listed may import nothing of ours. See docs/design.md.
var allowed = map[string][]string{
	"":                                 {},
	"cluster":                          {"cluster/lock", "cluster/once", "cluster/processor", "internal/consensus", "internal/crashdetector", "internal/elections", "internal/leaderelection", "internal/login", "internal/mirror", "internal/session", "internal/sharding", "internal/shardplan", "internal/state", "internal/suspicion", "internal/txn", "internal/wait", "internal/zaplog", "node"},
	"cluster/election":                 {"internal/lifecycle"},
	"cluster/elector":                  {"internal/clock", "internal/deadline", "internal/oneline", "internal/state"},
	"cluster/elector/electortest":      {"cluster/elector"},
	"cluster/elector/postgres":         {"cluster/elector"},
	"cluster/httpapi":                  {"cluster", "cluster/processor", "internal/leaderelection", "internal/oneline", "internal/shardview", "internal/state"},
	"cluster/lock":                     {"internal/leasequeue", "internal/leasequeue/order", "internal/session", "internal/state", "internal/wait"},
	"cluster/lock/locktest":            {"cluster/lock", "internal/state"},
	"cluster/once":                     {"internal/clock", "internal/deadline", "internal/leasequeue", "internal/session", "internal/state", "internal/wait"},
	"cluster/processor":                {"cluster/lock", "internal/consensus", "internal/elections", "internal/oneline", "internal/state", "internal/wait"},
	"cluster/processor/checkpointtest": {"cluster/processor"},
	"cluster/processor/postgres":       {"cluster/processor"},
	"clustertest":                      {"cluster", "clustertest/fault", "embedetcd", "internal/leaderelection", "internal/mirror", "internal/session", "internal/state", "node"},
	"clustertest/fault":                {"internal/child"},
	"clustertest/history":              {"cluster", "cluster/lock", "cluster/once", "internal/leaderelection"},
	"cmd/goversed":                     {"*"},
	"embedetcd":                        {"internal/port", "internal/zaplog"},
	"examples/cron":                    {"cluster", "cluster/once", "internal/elections", "node"},
	"examples/internal/trial":          {"clustertest/fault", "internal/testkit/etcdtest"},
	"examples/outbox":                  {"cluster", "cluster/processor", "cluster/processor/postgres", "node"},
	"examples/views":                   {"cluster", "cluster/httpapi", "cluster/processor", "cluster/processor/postgres", "node"},
	"integration":                      {"*"},
	"integration/internal/chaos":       {"*"},
	"integration/internal/leases":      {"clustertest/history"},
	"integration/internal/procs":       {"*"},
	"internal/candidacy":               {"internal/mutant", "internal/state", "internal/txn"},
	"internal/child":                   {},
	"internal/cli":                     {},
	"internal/clock":                   {"internal/deadline"},
	"internal/consensus":               {"internal/leaderelection", "internal/mirror", "internal/ownership", "internal/session", "internal/sharding", "internal/shardplan", "internal/state", "internal/txn", "internal/wait"},
	"internal/crashdetector":           {"internal/mirror", "internal/session", "internal/state", "internal/suspicion", "internal/txn"},
	"internal/daemon":                  {"*"},
	"internal/deadline":                {"internal/mutant"},
	"internal/dev":                     {"*"},
	"internal/elections":               {"internal/leasequeue", "internal/leasequeue/order", "internal/session", "internal/state", "internal/txn", "internal/wait"},
	"internal/leaderelection":          {"internal/candidacy", "internal/mirror", "internal/session", "internal/state", "internal/txn", "internal/wait"},
	"internal/leasequeue":              {"internal/leasequeue/order", "internal/mutant", "internal/session", "internal/state", "internal/wait"},
	"internal/leasequeue/order":        {},
	"internal/lifecycle":               {},
	"internal/linger":                  {"internal/mutant", "internal/state", "internal/suspicion"},
	"internal/login":                   {},
	"internal/mirror":                  {"internal/linger", "internal/state", "internal/watchprogress"},
	"internal/mutant":                  {},
	"internal/mutant/mutanttest":       {"internal/mutant"},
	"internal/oneline":                 {},
	"internal/operator":                {"*"},
	"internal/ownership":               {"internal/mutant", "internal/sharding"},
	"internal/port":                    {},
	"internal/reach":                   {"cluster"},
	"internal/renewal":                 {},
	"internal/session":                 {"internal/clock", "internal/deadline", "internal/renewal", "internal/wait"},
	"internal/sharding":                {},
	"internal/shardplan":               {"internal/sharding", "internal/state"},
	"internal/shardview":               {"internal/sharding", "internal/shardplan", "internal/state"},
	"internal/simulation":              {"internal/candidacy", "internal/deadline", "internal/linger", "internal/ownership", "internal/sharding", "internal/shardplan", "internal/state", "internal/suspicion", "internal/txn", "internal/watchprogress"},
	"internal/state":                   {"internal/mutant", "internal/sharding"},
	"internal/supervise":               {"cluster/lock", "internal/child", "internal/cli", "internal/elections", "internal/session", "internal/state", "internal/supervise/ending"},
	"internal/supervise/ending":        {},
	"internal/suspicion":               {"internal/mutant", "internal/state"},
	"internal/testkit/etcdtest":        {"embedetcd"},
	"internal/testkit/modeletcd":       {},
	"internal/testkit/needed":          {},
	"internal/testkit/pgserver":        {"clustertest/fault", "internal/testkit/needed", "internal/testkit/server"},
	"internal/testkit/processtest":     {"clustertest", "internal/session", "internal/testkit/etcdtest"},
	"internal/testkit/server":          {"clustertest/fault", "internal/port"},
	"internal/testkit/testbed":         {"internal/state", "internal/testkit/etcdtest", "internal/testkit/processtest"},
	"internal/txn":                     {"internal/mutant", "internal/sharding", "internal/state"},
	"internal/wait":                    {},
	"internal/watchprogress":           {"internal/mutant"},
	"internal/zaplog":                  {},
	"node":                             {"proto/goverse/node/v1"},
	"proto/goverse/node/v1":            {},
}

type pkg struct {
	ImportPath string
	Name       string
	Doc        string
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) map[string]pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,Doc,Imports,Deps", "./...").Output()
	require.NoError(t, err)
	all := map[string]pkg{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if name, ours := ourName(p.ImportPath); ours {
			all[name] = p
		}
	}
}

func ourName(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

func TestImportTable(t *testing.T) {
	for name, p := range packages(t) {
		may, listed := allowed[name]
		if !listed {
			t.Errorf("package %s is not in the import table: add it there and in docs/design.md", p.ImportPath)
			continue
		}
		if slices.Contains(may, "*") {
			continue
		}
		for _, path := range p.Imports {
			if other, ours := ourName(path); ours && !slices.Contains(may, other) {
				t.Errorf("package %s must not import %s", p.ImportPath, path)
			}
		}
	}
}

// Whoever imports cluster gets neither etcd's server nor what only the daemon
// and the tests need.
func TestClusterStaysLean(t *testing.T) {
	all := packages(t)
	for _, name := range []string{"cluster", "internal/leaderelection", "cluster/processor", "node"} {
		for _, dep := range all[name].Deps {
			for _, heavy := range []string{"go.etcd.io/etcd/server", "go.etcd.io/bbolt", "go.etcd.io/raft", "github.com/spf13/cobra",
				"github.com/prometheus", "github.com/jackc", "database/sql", "github.com/stretchr"} {
				if strings.HasPrefix(dep, heavy) {
					t.Errorf("%s pulls in %s", name, dep)
				}
			}
		}
	}
}

// What decides has no goroutine, no lock and no I/O, so that a simulation can run it.
func TestWhatDecidesIsPure(t *testing.T) {
	all := packages(t)
	for _, name := range []string{"internal/state", "internal/sharding", "internal/shardview", "internal/candidacy",
		"internal/deadline", "internal/watchprogress", "internal/ownership", "internal/linger", "internal/shardplan", "internal/leasequeue/order", "internal/suspicion",
		"internal/simulation"} {
		require.NotEmpty(t, all[name].ImportPath, name)
		for _, path := range all[name].Imports {
			if slices.Contains([]string{"context", "net", "os", "sync"}, path) || strings.HasPrefix(path, "go.etcd.io/") || strings.HasPrefix(path, "google.golang.org/") {
				t.Errorf("package %s must not import %s", name, path)
			}
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("package %s has no package comment", p.ImportPath)
		}
	}
}
