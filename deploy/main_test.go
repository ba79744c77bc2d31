package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// read returns the text of a file below this directory.
func read(t *testing.T, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(text)
}

// documented returns the metrics listed in docs/reference/metrics.md, with the suffixes of a histogram's series.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	text := read(t, "..", "docs", "reference", "metrics.md")
	_, table, begun := strings.Cut(text, "<!-- exported -->")
	table, _, ended := strings.Cut(table, "<!-- /exported -->")
	require.True(t, begun && ended, "docs/reference/metrics.md has its table between two marks")
	names := map[string]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 3 || !strings.HasPrefix(cells[1], " `goverse_") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		if strings.TrimSpace(cells[2]) != "histogram" {
			names[name] = true
			continue
		}
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			names[name+suffix] = true
		}
	}
	require.Greater(t, len(names), 50)
	return names
}

// isVariable reports whether goversed node has a flag with this environment variable.
func isVariable(t *testing.T, name string) bool {
	t.Helper()
	flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "GOVERSE_")), "_", "-")
	files, err := filepath.Glob("../cmd/goversed/*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasPrefix(name, "GOVERSE_") && strings.Contains(read(t, file), `"`+flag+`", `) {
			return true
		}
	}
	return false
}
