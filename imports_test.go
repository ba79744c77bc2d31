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

// floors lists the floors of the tree from the bottom up, each as a list of subtrees. A package belongs to the
// floor with the longest subtree that contains it. It may import from its own floor and from those below.
// docs/design.md describes the floors.
var floors = [][]string{
	{"proto", "internal/backoff", "internal/callback", "internal/child", "internal/lifecycle", "internal/logs",
		"internal/port", "internal/state/format", "internal/wait"},
	{"cluster/event", "cluster/objects", "cluster/once", "cluster/session", "cluster/shard", "cluster/slogger",
		"cluster/stats", "internal/histogram", "internal/objects/hosted"},
	{"internal/sharding", "internal/state"},
	{"internal/crash", "internal/etcd"},
	{"internal/peer", "node"},
	{"cluster/automation", "cluster/consensusmanager", "cluster/election", "cluster/elector", "cluster/internal",
		"cluster/leaderelection", "cluster/lock", "cluster/objects/client", "cluster/objects/state/postgres",
		"cluster/once/postgres", "cluster/pgsession", "cluster/processor", "internal/eventlog", "internal/leasequeue",
		"internal/member", "internal/objects"},
	{"cluster"},
	{"cluster/httpapi", "cluster/leaderonly", "cluster/objects/tracing", "cluster/pgnode", "embedetcd"},
	{"cmd/goversed"},
	{"", "clustertest", "examples", "integration", "internal/test"},
}

// equipment lists the subtrees that only other equipment and tests may import.
var equipment = []string{"clustertest", "examples", "integration", "internal/test"}

// floorOf returns the floor of a package, or -1 if it is on none.
func floorOf(name string) int {
	floor, longest := -1, -1
	for i, subtrees := range floors {
		for _, subtree := range subtrees {
			if within(name, subtree) && len(subtree) > longest {
				floor, longest = i, len(subtree)
			}
		}
	}
	return floor
}

// within reports whether a package lies in a subtree. The subtree "" holds the root package alone.
func within(name, subtree string) bool {
	return name == subtree || subtree != "" && strings.HasPrefix(name, subtree+"/")
}

func isEquipment(name string) bool {
	return name == "" || slices.ContainsFunc(equipment, func(subtree string) bool { return within(name, subtree) })
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

// A package imports only from its own floor and from those below. Only tests and other equipment import
// equipment.
func TestFloors(t *testing.T) {
	all := packages(t)
	for name, p := range all {
		floor := floorOf(name)
		require.GreaterOrEqual(t, floor, 0, "package %s is on no floor: give it one here and in docs/design.md", name)
		for _, path := range p.Imports {
			other, ours := ourName(path)
			switch {
			case !ours:
			case floorOf(other) > floor:
				t.Errorf("package %s must not import %s, which is on a floor above it", name, other)
			case isEquipment(other) && !isEquipment(name):
				t.Errorf("package %s must not import %s, which is there for tests", name, other)
			}
		}
	}
	for _, subtrees := range floors {
		for _, subtree := range subtrees {
			used := false
			for name := range all {
				used = used || within(name, subtree)
			}
			require.True(t, used, "the floors have a subtree %q that the tree has not: take it out", subtree)
		}
	}
	require.Greater(t, floorOf("cluster"), floorOf("internal/state"), "the test tells floors apart")
	require.True(t, isEquipment("internal/test/leak"), "the test tells equipment apart")
}

// mostInternal limits the folders directly in internal/, so that a reader can survey them.
const mostInternal = 18

func TestInternalStaysSmall(t *testing.T) {
	entries, err := os.ReadDir("internal")
	require.NoError(t, err)
	require.LessOrEqual(t, len(entries), mostInternal, "put the package on the floor that it belongs to")
}

// docs/design.md describes every floor and subtree, and no others.
func TestDesignNamesTheFloors(t *testing.T) {
	design, err := os.ReadFile("docs/design.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(design), "| where | what |\n|---|---|\n")
	require.True(t, found)
	var named []string
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "| ") {
			break
		}
		for i, part := range strings.Split(strings.Split(row, " | ")[0], "`") {
			if i%2 == 1 {
				named = append(named, part)
			}
		}
	}
	for _, name := range named {
		info, err := os.Stat(name)
		require.NoError(t, err, "docs/design.md has a folder that the tree has not")
		require.True(t, info.IsDir(), name)
	}
	for name := range packages(t) {
		described := name == "" || slices.ContainsFunc(named, func(subtree string) bool { return within(name, subtree) })
		require.True(t, described, "docs/design.md does not describe package %s", name)
	}
}

// Importing cluster brings in neither etcd's server nor dependencies that only the daemon or the tests need.
func TestClusterStaysLean(t *testing.T) {
	all := packages(t)
	for _, name := range []string{"cluster", "cluster/processor", "node"} {
		for _, dep := range all[name].Deps {
			for _, heavy := range []string{"go.etcd.io/etcd/server", "go.etcd.io/bbolt", "go.etcd.io/raft",
				"github.com/spf13/cobra",
				"github.com/prometheus", "github.com/jackc", "github.com/redis", "database/sql", "github.com/stretchr"} {
				if strings.HasPrefix(dep, heavy) {
					t.Errorf("%s pulls in %s", name, dep)
				}
			}
		}
	}
}

// The queues and the elections have one mutex each, and while they hold it they call no function that takes
// another, because a notified subscriber may take both. So there is no lock order to violate.
func TestOneMutexEach(t *testing.T) {
	for _, name := range []string{"internal/leasequeue", "internal/leasequeue/elections"} {
		found := 0
		for _, dir := range []string{name, name + "/order", name + "/entrystate", name + "/candidate"} {
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

// Packages that decide have no goroutines, no locks and no I/O, so that tests can check any case.
func TestWhatDecidesIsPure(t *testing.T) {
	all := packages(t)
	for _, name := range []string{"cluster/shard", "internal/etcd/access", "cmd/goversed/internal/doctor/diagnosis",
		"internal/etcd/etcdversion", "internal/state", "internal/sharding", "internal/sharding/shardview",
		"internal/member/candidacy",
		"internal/etcd/deadline", "internal/etcd/watchprogress", "internal/sharding/ownership",
		"internal/etcd/lingering", "internal/sharding/shardplan",
		"internal/leasequeue/order", "internal/leasequeue/entrystate", "internal/leasequeue/elections/candidate",
		"internal/crash/suspicion", "internal/backoff", "internal/crash/heartbeat"} {
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

// Lines end at 120 columns, except directives. Generated code is exempt.
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
