package goverse

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const module = "github.com/goverse/goverse"

// allowed is the house: which package may import which others of ours, tests
// apart. What is not listed may import nothing of ours. See docs/design.md.
var allowed = map[string][]string{
	"": {},
	"cluster": {"cluster/election", "cluster/event", "cluster/lock", "cluster/objects", "cluster/once",
		"cluster/processor", "cluster/session", "cluster/shard", "cluster/stats", "internal/budget",
		"internal/consensus", "internal/core", "internal/crashdetector", "internal/effects", "internal/elections",
		"internal/etcdlock", "internal/etcdsession", "internal/etcdversion", "internal/eventlog", "internal/inspect",
		"internal/leaderelection", "internal/leasequeue", "internal/lifecycle", "internal/logqueue",
		"internal/membership", "internal/mirror", "internal/objects/gateway", "internal/objects/host",
		"internal/objects/interceptor", "internal/objects/link", "internal/objects/route", "internal/reach",
		"internal/request", "internal/sharding", "internal/shardplan", "internal/shardview", "internal/state",
		"internal/suspicion", "internal/wait", "node", "proto/goverse/objects/v1"},
	"cluster/election": {"cluster/session", "internal/lifecycle"},
	"cluster/elector": {"cluster/election", "internal/callback", "internal/clock", "internal/deadline",
		"internal/logqueue", "internal/oneline", "internal/state", "internal/wait"},
	"cluster/elector/electortest": {"cluster/elector"},
	"cluster/elector/postgres":    {"cluster/elector", "internal/pg"},
	"cluster/event":               {},
	"cluster/httpapi": {"cluster", "cluster/election", "cluster/event", "cluster/lock", "cluster/objects",
		"cluster/once", "cluster/processor", "cluster/shard", "cluster/stats", "internal/callback",
		"internal/dashboard", "internal/logqueue", "internal/oneline", "internal/problem"},
	"cluster/leaderonly": {"cluster", "cluster/election", "cluster/elector", "cluster/objects", "internal/logqueue",
		"internal/problem", "internal/wait"},
	"cluster/lock": {"cluster/election", "internal/leasequeue", "internal/leasequeue/order",
		"internal/lifecycle", "internal/state", "internal/wait"},
	"cluster/lock/locktest": {"cluster/lock", "internal/lifecycle"},
	"cluster/objects":       {"cluster/stats"},
	"cluster/objects/client": {"cluster/objects", "cluster/shard", "internal/backoff", "internal/logqueue",
		"internal/objects/interceptor", "internal/objects/link", "internal/objects/route", "internal/oneline",
		"internal/wait", "proto/goverse/objects/v1"},
	"cluster/objects/state":           {},
	"cluster/objects/state/etcd":      {"cluster/objects/state"},
	"cluster/objects/state/postgres":  {"cluster/objects/state", "internal/logqueue", "internal/pg"},
	"cluster/objects/state/statetest": {"cluster/objects/state"},
	"cluster/objects/tracing":         {"cluster", "cluster/objects/client"},
	"cluster/once":                    {"internal/lifecycle"},
	"cluster/processor": {"cluster/election", "cluster/lock", "internal/backoff", "internal/callback",
		"internal/lifecycle", "internal/logqueue", "internal/oneline", "internal/state", "internal/wait"},
	"cluster/processor/checkpointtest": {"cluster/processor"},
	"cluster/processor/postgres": {"cluster/processor", "internal/backoff", "internal/logqueue", "internal/pg",
		"internal/wait"},
	"cluster/session": {},
	"cluster/shard":   {"cluster/stats"},
	"cluster/slogger": {"internal/loglines"},
	"cluster/stats":   {},
	"clustertest": {"cluster", "cluster/election", "clustertest/fault", "embedetcd", "internal/port",
		"internal/state", "internal/testkit/leak", "node"},
	"clustertest/fault":   {"internal/child"},
	"clustertest/history": {"cluster", "internal/history"},
	"cmd/goversed":        {"*"},
	"embedetcd":           {"internal/logqueue", "internal/port", "internal/zaplog"},
	"examples/bank": {"cluster", "cluster/election", "cluster/objects", "cluster/objects/state",
		"cluster/objects/state/postgres", "cluster/slogger", "embedetcd", "examples/bank/bankpb", "node"},
	"examples/bank/bankpb": {},
	"examples/chat": {"cluster", "cluster/objects", "cluster/objects/state", "cluster/objects/state/etcd",
		"cluster/slogger", "embedetcd", "examples/chat/chatpb", "node"},
	"examples/chat/chatpb": {},
	"examples/controller": {"cluster", "cluster/election", "cluster/httpapi", "cluster/leaderonly",
		"cluster/slogger", "node"},
	"examples/counter": {"cluster", "cluster/objects", "cluster/slogger", "embedetcd",
		"examples/counter/counterpb", "node"},
	"examples/counter/counterpb": {},
	"examples/leader":            {"cluster", "cluster/election", "cluster/slogger", "node"},
	"examples/cron":              {"cluster", "cluster/election", "cluster/once", "node"},
	"examples/internal/trial":    {"clustertest/fault", "internal/testkit/etcdtest", "internal/testkit/leaktest"},
	"examples/outbox":            {"cluster", "cluster/processor", "cluster/processor/postgres", "node"},
	"examples/service": {"cluster", "cluster/election", "cluster/httpapi", "cluster/leaderonly",
		"cluster/shard", "cluster/slogger", "examples/service/countspb", "node"},
	"examples/service/countspb": {},
	"examples/views": {"cluster", "cluster/httpapi", "cluster/processor", "cluster/processor/postgres",
		"node"},
	"integration":                 {"*"},
	"integration/internal/chaos":  {"*"},
	"integration/internal/leases": {"internal/history"},
	"integration/internal/procs":  {"*"},
	"internal/access":             {"internal/state"},
	"internal/backoff":            {},
	"internal/budget":             {"cluster/objects"},
	"internal/candidacy":          {"cluster/election", "internal/backoff", "internal/state", "internal/txn"},
	"internal/callback":           {},
	"internal/child":              {},
	"internal/cli":                {},
	"internal/clock":              {"internal/deadline"},
	"internal/consensus": {"cluster/election", "cluster/event", "cluster/shard", "cluster/stats", "internal/backoff",
		"internal/callback", "internal/etcdsession", "internal/leaderelection", "internal/lifecycle",
		"internal/mirror", "internal/ownership", "internal/sharding", "internal/shardplan", "internal/state",
		"internal/txn", "internal/wait"},
	"internal/core": {"cluster/session", "internal/consensus", "internal/crashdetector",
		"internal/deadline", "internal/etcdsession", "internal/leaderelection", "internal/membership",
		"internal/mirror", "internal/sharding", "internal/shardplan", "internal/state", "internal/wait"},
	"internal/crashdetector": {"cluster/event", "internal/etcdsession", "internal/heartbeat", "internal/mirror",
		"internal/state", "internal/suspicion", "internal/txn", "internal/wait"},
	"internal/daemon":    {"*"},
	"internal/dashboard": {},
	"internal/deadline":  {"internal/backoff"},
	"internal/dev":       {"*"},
	"internal/doctor": {"internal/access", "internal/doctor/diagnosis", "internal/oneline",
		"internal/prefixes", "internal/reach", "internal/state", "node"},
	"internal/doctor/diagnosis": {"cluster/election", "internal/access", "internal/etcdversion",
		"internal/sharding", "internal/state", "internal/suspicion"},
	"internal/effects": {"cluster/once", "internal/backoff", "internal/clock", "internal/deadline",
		"internal/leasequeue", "internal/lifecycle", "internal/state", "internal/wait"},
	"internal/elections": {"cluster/election", "cluster/session", "internal/backoff",
		"internal/elections/candidate", "internal/leasequeue", "internal/leasequeue/order", "internal/lifecycle",
		"internal/state", "internal/txn", "internal/wait"},
	"internal/elections/candidate": {"cluster/election", "cluster/session", "internal/leasequeue/order",
		"internal/leasequeue/place", "internal/lifecycle"},
	"internal/etcdlock": {"cluster/lock", "internal/leasequeue", "internal/leasequeue/order",
		"internal/state"},
	"internal/etcdsession": {"cluster/event", "cluster/session", "cluster/stats", "internal/backoff",
		"internal/clock", "internal/deadline", "internal/renewal", "internal/wait"},
	"internal/etcdversion": {},
	"internal/eventlog": {"cluster/election", "cluster/event", "cluster/session", "cluster/stats",
		"internal/backoff", "internal/mirror", "internal/state", "internal/wait"},
	"internal/heartbeat": {},
	"internal/history":   {"cluster", "cluster/election", "cluster/lock", "cluster/objects", "cluster/once"},
	"internal/inspect":   {"internal/etcdsession", "internal/leaderelection", "internal/state"},
	"internal/leaderelection": {"cluster/election", "cluster/event", "cluster/session", "cluster/stats",
		"internal/candidacy", "internal/etcdsession", "internal/mirror", "internal/request",
		"internal/state", "internal/txn", "internal/wait"},
	"internal/leasequeue": {"cluster/session", "internal/backoff", "internal/etcdsession",
		"internal/leasequeue/order", "internal/leasequeue/place", "internal/lifecycle",
		"internal/state", "internal/wait"},
	"internal/leasequeue/order": {"cluster/election"},
	"internal/leasequeue/place": {"cluster/election", "internal/lifecycle"},
	"internal/lifecycle":        {},
	"internal/linger":           {"internal/state", "internal/suspicion"},
	"internal/loglines":         {},
	"internal/logqueue":         {"internal/loglines"},
	"internal/login":            {"internal/callback"},
	"internal/membership": {"cluster/session", "internal/backoff", "internal/crashdetector",
		"internal/etcdsession", "internal/mirror", "internal/state", "internal/suspicion", "internal/txn",
		"internal/wait"},
	"internal/mirror": {"internal/backoff", "internal/linger", "internal/oneline", "internal/state",
		"internal/watchprogress"},
	"internal/objects": {},
	"internal/objects/gateway": {"cluster/objects", "internal/budget", "internal/objects/host",
		"internal/objects/link", "internal/objects/route", "proto/goverse/objects/v1"},
	"internal/objects/host":        {"cluster/objects", "cluster/stats", "internal/oneline"},
	"internal/objects/interceptor": {},
	"internal/objects/link":        {"internal/budget", "internal/objects/link/wire", "proto/goverse/objects/v1"},
	"internal/objects/link/wire":   {"proto/goverse/objects/v1"},
	"internal/objects/route": {"cluster/objects", "internal/backoff", "internal/objects/host",
		"internal/objects/link", "internal/objects/link/wire", "proto/goverse/objects/v1"},
	"internal/oneline":   {},
	"internal/operator":  {"*"},
	"internal/ownership": {"internal/backoff", "internal/sharding"},
	"internal/pg":        {"internal/logqueue", "internal/oneline"},
	"internal/port":      {},
	"internal/prefixes":  {"internal/state"},
	"internal/problem":   {},
	"internal/reaper":    {},
	"internal/reach":     {"internal/backoff", "internal/callback", "internal/login", "internal/wait", "internal/zaplog"},
	"internal/renewal":   {},
	"internal/request": {"cluster/election", "internal/backoff", "internal/candidacy", "internal/etcdsession",
		"internal/mirror", "internal/sharding", "internal/shardview", "internal/state", "internal/txn", "internal/wait"},
	"internal/sharding":  {"cluster/shard"},
	"internal/shardplan": {"internal/backoff", "internal/sharding", "internal/state"},
	"internal/shardview": {"cluster/shard", "internal/sharding", "internal/shardplan", "internal/state"},
	"internal/simulation": {"cluster/election", "cluster/event", "cluster/session", "internal/consensus",
		"internal/core", "internal/crashdetector", "internal/deadline", "internal/etcdsession",
		"internal/heartbeat", "internal/sharding", "internal/shardplan", "internal/state", "internal/suspicion",
		"internal/testkit/modeletcd", "internal/txn", "internal/wait"},
	"internal/state": {"cluster/election", "cluster/shard", "internal/lifecycle", "internal/sharding"},
	"internal/supervise": {"cluster/election", "cluster/lock", "cluster/session", "internal/child", "internal/cli",
		"internal/elections", "internal/etcdlock", "internal/etcdsession", "internal/leasequeue",
		"internal/logqueue", "internal/reach", "internal/state", "internal/supervise/ending", "internal/wait"},
	"internal/supervise/ending":    {},
	"internal/suspicion":           {"internal/backoff", "internal/state"},
	"internal/testkit/basetest":    {"cluster/session", "internal/etcdsession", "internal/mirror", "internal/state"},
	"internal/testkit/browser":     {"internal/testkit/needed"},
	"internal/testkit/certtest":    {},
	"internal/testkit/etcdtest":    {"embedetcd"},
	"internal/testkit/faults":      {"clustertest", "clustertest/fault"},
	"internal/testkit/leak":        {},
	"internal/testkit/race":        {},
	"internal/testkit/leaktest":    {"internal/testkit/pace"},
	"internal/testkit/logtest":     {"internal/logqueue"},
	"internal/testkit/modeletcd":   {},
	"internal/testkit/mutants":     {},
	"internal/testkit/pace":        {},
	"internal/testkit/pace/slow":   {"internal/testkit/pace"},
	"internal/testkit/mutants/try": {"internal/testkit/mutants"},
	"internal/testkit/needed":      {},
	"internal/testkit/nodetest": {"cluster", "cluster/election", "clustertest", "internal/crashdetector",
		"internal/state", "internal/testkit/etcdtest"},
	"internal/testkit/pgserver": {"clustertest/fault", "internal/testkit/needed",
		"internal/testkit/server"},
	"internal/testkit/probepb":     {"cluster/objects"},
	"internal/testkit/processtest": {"clustertest", "internal/etcdsession", "internal/testkit/etcdtest"},
	"internal/testkit/server":      {"clustertest/fault", "internal/port"},
	"internal/testkit/testbed": {"internal/etcdlock", "internal/leasequeue", "internal/state",
		"internal/testkit/etcdtest", "internal/testkit/processtest"},
	"internal/txn":             {"cluster/election", "internal/sharding", "internal/state"},
	"internal/wait":            {},
	"internal/watchprogress":   {"internal/backoff"},
	"internal/zaplog":          {},
	"node":                     {"internal/budget", "internal/heartbeat", "internal/logqueue", "proto/goverse/node/v1"},
	"node/mtls":                {"internal/callback", "internal/logqueue"},
	"proto/goverse/node/v1":    {},
	"proto/goverse/objects/v1": {},
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
	all := packages(t)
	for name, p := range all {
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
		for _, other := range may {
			if !slices.Contains(p.Imports, module+"/"+other) {
				t.Errorf("package %s may import %s in the import table, and does not: take it out", p.ImportPath, other)
			}
		}
	}
	for name := range allowed {
		if _, there := all[name]; !there {
			t.Errorf("the import table has a package %q, and the tree has not: take it out", name)
		}
	}
}

// docs/design.md names every package, and none that is not there. A row may name several.
func TestDesignNamesThePackages(t *testing.T) {
	design, err := os.ReadFile("docs/design.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(design), "| package | its one subject |\n|---|---|\n")
	require.True(t, found)
	named := map[string]bool{}
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "| `") {
			break
		}
		for i, part := range strings.Split(strings.Split(row, " | ")[0], "`") {
			if i%2 == 1 {
				named[part] = true
			}
		}
	}
	all := packages(t)
	for name := range all {
		if name != "" && !named[name] {
			t.Errorf("docs/design.md does not say what package %s is for", name)
		}
		delete(named, name)
	}
	for name := range named {
		if !strings.HasPrefix(name, "bench") && name != "deploy" { // modules of their own
			t.Errorf("docs/design.md has a package %s, and the tree has not", name)
		}
	}
}

// Importing cluster brings neither etcd's server nor what only the daemon
// and the tests need.
func TestClusterStaysLean(t *testing.T) {
	all := packages(t)
	for _, name := range []string{"cluster", "cluster/processor", "node"} {
		for _, dep := range all[name].Deps {
			for _, heavy := range []string{"go.etcd.io/etcd/server", "go.etcd.io/bbolt", "go.etcd.io/raft",
				"github.com/spf13/cobra",
				"github.com/prometheus", "github.com/jackc", "database/sql", "github.com/stretchr"} {
				if strings.HasPrefix(dep, heavy) {
					t.Errorf("%s pulls in %s", name, dep)
				}
			}
		}
	}
}

// The queues and the elections have one lock each, and call nothing with it held that takes another one: those who are
// notified may take both. So there is no order of locks, and none to get wrong.
func TestOneMutexEach(t *testing.T) {
	for _, name := range []string{"internal/leasequeue", "internal/elections"} {
		found := 0
		for _, dir := range []string{name, name + "/order", name + "/place", name + "/candidate"} {
			files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
			require.NoError(t, err)
			for _, file := range files {
				if strings.HasSuffix(file, "_test.go") {
					continue
				}
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				found += strings.Count(string(text), "sync.Mutex") + strings.Count(string(text), "sync.RWMutex")
			}
		}
		require.Equal(t, 1, found, name)
	}
}

// What decides has no goroutine, no lock and no I/O, so that a test can ask it anything.
func TestWhatDecidesIsPure(t *testing.T) {
	all := packages(t)
	for _, name := range []string{"cluster/shard", "internal/access", "internal/doctor/diagnosis",
		"internal/etcdversion", "internal/state", "internal/sharding", "internal/shardview",
		"internal/candidacy",
		"internal/deadline", "internal/watchprogress", "internal/ownership", "internal/linger", "internal/shardplan",
		"internal/leasequeue/order", "internal/leasequeue/place", "internal/elections/candidate",
		"internal/suspicion", "internal/backoff", "internal/heartbeat"} {
		require.NotEmpty(t, all[name].ImportPath, name)
		for _, path := range all[name].Imports {
			if slices.Contains([]string{"context", "net", "os", "sync"}, path) || strings.HasPrefix(path,
				"go.etcd.io/") || strings.HasPrefix(path, "google.golang.org/") {
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

// Lines end at 120 columns, but for directives. Generated code is not ours.
func TestLinesEndAt120Columns(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "*.go").Output()
	if err != nil {
		t.Skip("not a git checkout")
	}
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile(name)
		if err != nil || strings.HasSuffix(name, ".pb.go") {
			continue // deleted, and not committed yet
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			long := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 120
			if long && !strings.HasPrefix(line, "//go:") {
				t.Errorf("%s:%d is longer than 120 columns", name, number)
			}
		}
	}
}
