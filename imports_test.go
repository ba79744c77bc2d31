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
	"cmd/goversed":                     {"*"},
	"internal/daemon":                  {"*"},
	"internal/dev":                     {"*"},
	"internal/operator":                {"*"},
	"internal/child":                   {},
	"internal/cli":                     {},
	"internal/gated":                   {"cluster/elections", "cluster/lock", "cluster/session", "cluster/state", "internal/child", "internal/cli", "internal/gated/ending"},
	"internal/gated/ending":            {},
	"internal/reach":                   {"cluster"},
	"internal/etcdtest":                {"embedetcd"},
	"internal/needed":                  {},
	"internal/pgserver":                {"clustertest/fault", "internal/needed", "internal/server"},
	"internal/processtest":             {"cluster/session", "clustertest", "internal/etcdtest"},
	"internal/server":                  {"clustertest/fault", "internal/port"},
	"internal/port":                    {},
	"internal/zaplog":                  {},
	"cluster":                          {"cluster/consensusmanager", "cluster/crashdetector", "cluster/elections", "cluster/lock", "cluster/once", "cluster/processor", "cluster/internal/change", "cluster/internal/commit", "cluster/internal/login", "cluster/internal/planning", "cluster/internal/suspicion", "cluster/internal/wait", "cluster/sharding", "cluster/leaderelection", "cluster/mirror", "cluster/session", "cluster/state", "node", "internal/zaplog"},
	"cluster/httpapi":                  {"cluster", "cluster/internal/oneline", "cluster/processor", "cluster/shardview", "cluster/state", "cluster/leaderelection"},
	"cluster/consensusmanager":         {"cluster/internal/change", "cluster/internal/commit", "cluster/internal/holding", "cluster/internal/planning", "cluster/internal/wait", "cluster/leaderelection", "cluster/mirror", "cluster/session", "cluster/sharding", "cluster/state"},
	"cluster/leaderelection":           {"cluster/internal/candidacy", "cluster/internal/change", "cluster/internal/commit", "cluster/internal/wait", "cluster/mirror", "cluster/session", "cluster/state"},
	"cluster/crashdetector":            {"cluster/internal/change", "cluster/internal/commit", "cluster/internal/suspicion", "cluster/mirror", "cluster/session", "cluster/state"},
	"cluster/mirror":                   {"cluster/internal/following", "cluster/internal/lingering", "cluster/state"},
	"cluster/session":                  {"cluster/internal/clock", "cluster/internal/deadline", "cluster/internal/renewal", "cluster/internal/wait"},
	"cluster/internal/renewal":         {},
	"cluster/internal/login":           {},
	"cluster/internal/candidacy":       {"cluster/internal/change", "cluster/state", "internal/planted"},
	"cluster/internal/change":          {"cluster/sharding", "cluster/state", "internal/planted"},
	"cluster/internal/commit":          {"cluster/internal/change"},
	"cluster/internal/clock":           {"cluster/internal/deadline"},
	"cluster/internal/deadline":        {"internal/planted"},
	"cluster/internal/following":       {"internal/planted"},
	"cluster/internal/lingering":       {"cluster/internal/suspicion", "cluster/state", "internal/planted"},
	"cluster/elections":                {"cluster/internal/commit", "cluster/internal/queueing", "cluster/internal/queues", "cluster/internal/wait", "cluster/session", "cluster/state"},
	"cluster/elector":                  {"cluster/internal/clock", "cluster/internal/deadline", "cluster/internal/oneline", "cluster/state"},
	"cluster/elector/electortest":      {"cluster/elector"},
	"cluster/elector/postgres":         {"cluster/elector"},
	"cluster/once":                     {"cluster/internal/clock", "cluster/internal/deadline", "cluster/internal/queues", "cluster/internal/wait", "cluster/session", "cluster/state"},
	"cluster/internal/queueing":        {},
	"cluster/internal/queues":          {"cluster/internal/queueing", "cluster/internal/wait", "cluster/session", "cluster/state", "internal/planted"},
	"cluster/internal/queuestest":      {"cluster/state", "internal/etcdtest", "internal/processtest"},
	"cluster/lock":                     {"cluster/internal/queueing", "cluster/internal/queues", "cluster/internal/wait", "cluster/session", "cluster/state"},
	"cluster/lock/locktest":            {"cluster/lock", "cluster/state"},
	"cluster/internal/holding":         {"cluster/sharding", "internal/planted"},
	"cluster/internal/planning":        {"cluster/sharding", "cluster/state"},
	"cluster/sharding":                 {},
	"cluster/shardview":                {"cluster/internal/planning", "cluster/sharding", "cluster/state"},
	"cluster/internal/simulation":      {"cluster/internal/candidacy", "cluster/internal/change", "cluster/internal/deadline", "cluster/internal/following", "cluster/internal/holding", "cluster/internal/lingering", "cluster/internal/planning", "cluster/internal/suspicion", "cluster/sharding", "cluster/state"},
	"cluster/internal/oneline":         {},
	"cluster/internal/modeletcd":       {},
	"cluster/internal/wait":            {},
	"cluster/internal/suspicion":       {"cluster/state", "internal/planted"},
	"internal/planted":                 {},
	"internal/planted/plantedtest":     {"internal/planted"},
	"cluster/state":                    {"cluster/sharding", "internal/planted"},
	"node":                             {"proto/goverse/node/v1"},
	"proto/goverse/node/v1":            {},
	"embedetcd":                        {"internal/port", "internal/zaplog"},
	"clustertest":                      {"cluster", "cluster/leaderelection", "cluster/mirror", "cluster/session", "cluster/state", "clustertest/fault", "embedetcd", "node"},
	"clustertest/fault":                {"internal/child"},
	"clustertest/history":              {"cluster", "cluster/leaderelection", "cluster/lock", "cluster/once"},
	"examples/cron":                    {"cluster", "cluster/elections", "cluster/once", "node"},
	"examples/internal/trial":          {"clustertest/fault", "internal/etcdtest"},
	"examples/outbox":                  {"cluster", "cluster/processor", "cluster/processor/postgres", "node"},
	"examples/views":                   {"cluster", "cluster/httpapi", "cluster/processor", "cluster/processor/postgres", "node"},
	"integration":                      {"*"},
	"integration/internal/chaos":       {"*"},
	"integration/internal/leases":      {"clustertest/history"},
	"integration/internal/procs":       {"*"},
	"cluster/processor":                {"cluster/consensusmanager", "cluster/elections", "cluster/internal/oneline", "cluster/internal/wait", "cluster/lock", "cluster/state"},
	"cluster/processor/checkpointtest": {"cluster/processor"},
	"cluster/processor/postgres":       {"cluster/processor"},
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
	for _, name := range []string{"cluster", "cluster/leaderelection", "cluster/processor", "node"} {
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
	for _, name := range []string{"cluster/state", "cluster/sharding", "cluster/shardview", "cluster/internal/candidacy", "cluster/internal/change",
		"cluster/internal/deadline", "cluster/internal/following", "cluster/internal/holding", "cluster/internal/lingering", "cluster/internal/planning", "cluster/internal/queueing", "cluster/internal/suspicion",
		"cluster/internal/simulation"} {
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
