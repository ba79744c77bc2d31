package goverse

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fixed lists the files and folders that keep their places, with the names that each must declare: types,
// functions, methods or fields.
var fixed = map[string][]string{
	"go.mod":    nil,
	"go.sum":    nil,
	"README.md": nil,
	"cluster": {"NewClusterWithNode", "GetLeaderNode", "GetConsensusManager", "IsLeader", "LeaderElectionTTL",
		"EtcdAddress", "EtcdPrefix"},
	"cluster/leaderelection": {"type LeaderElection", "IsLeader"},
	"cluster/consensusmanager": {"type ConsensusManager", "GetLeaderNode", "IsLeader", "Leader", "Term", "Mode",
		"WatchLeader", "WaitForLeader", "type Member", "Members", "Member", "WatchMembers", "Owner", "OwnerOf", "WatchOwner",
		"WatchOwnerOf", "type Runner"},
	"node":         nil,
	"cmd/goversed": {"main"},
	"integration":  nil,
}

// Programs and scripts of users rely on these places and names, which do not move before or after v1.
func TestFixedPlacesAndNames(t *testing.T) {
	for place, names := range fixed {
		_, err := os.Stat(place)
		require.NoError(t, err)
		declared := declarations(t, place)
		for _, name := range names {
			require.True(t, declared[name], "%s does not declare %s", place, name)
		}
	}
	require.False(t, declarations(t, "cluster")["NewClusterWithoutNode"], "the test tells what is declared")
}

// declarations collects the names that the product code of a folder declares.
func declarations(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
	require.NoError(t, err)
	names := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
				return false
			case *ast.TypeSpec:
				names["type "+n.Name.Name] = true
			case *ast.Field:
				for _, name := range n.Names {
					names[name.Name] = true
				}
			}
			return true
		})
	}
	return names
}
