package goverse

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// passOn lists the packages that need no queue of their own: they pass a user's logger to others that queue its
// lines, or get a logger that package cluster has queued.
var passOn = map[string]bool{"clustertest": true, "cluster/slogger": true, "cluster/leaderelection": true,
	"cluster/consensusmanager": true, "cluster/pgsession": true, "node": true}

// No goroutine waits for a user's logger: every package that takes one wraps it with logqueue. So a line logged
// under a lock, or before something urgent, costs little, whatever the log is written to.
func TestLoggersOfUsersAreQueued(t *testing.T) {
	t.Parallel()
	takes, queues := map[string]bool{}, map[string]bool{}
	for _, root := range []string{"cluster", "node", "embedetcd", "clustertest", "internal", "cmd"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			pkg := filepath.ToSlash(filepath.Dir(path))
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					queues[pkg] = queues[pkg] || isSelector(n.Fun, "logqueue", "New")
				case *ast.Field: // of a struct or a function
					if isSelector(n.Type, "hclog", "Logger") && len(n.Names) > 0 && root != "internal" && root != "cmd" {
						takes[pkg] = true
					}
				}
				return true
			})
			return nil
		}))
	}
	require.Greater(t, len(takes), 8, "it looks where they are")
	for pkg := range takes {
		if !passOn[pkg] {
			require.True(t, queues[pkg], "package %s takes a logger: give it to logqueue.New", pkg)
		}
	}
	for _, pkg := range []string{"internal/peer", "cmd/goversed/internal/daemon", "cmd/goversed/internal/supervise",
		"cmd/goversed"} {
		require.True(t, queues[pkg], pkg)
	}
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && s.Sel.Name == name
}
