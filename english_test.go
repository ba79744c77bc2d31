package goverse

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two habits make comments hard to read; CONTRIBUTING.md has the sentences to use instead. isWhat finds sentences of
// the form "X is what …", who finds processes that are called who or nobody.
var (
	isWhat = regexp.MustCompile(`\b(?:is|are|was|were|says|say|knows|tells)\s+` +
		`(?:what|how|whom|those|who|that which|by what|in what|of what|why|whether|where|when)\b`)
	who = regexp.MustCompile(`(?i)\b(?:who|whom|whose|whoever|nobody|somebody|anybody|no one|someone)\b`)
)

// mostHabits limits how often each habit may occur in 1,000 lines of comments or documents. etcd-io/raft has 0.6 and
// 1.1 in its comments.
const mostHabits = 5

// habits counts both habits in lines of text.
type habits struct{ lines, isWhat, who int }

func (h *habits) add(text string) {
	for line := range strings.Lines(text) {
		h.lines++
		h.isWhat += len(isWhat.FindAllString(line, -1))
		h.who += len(who.FindAllString(line, -1))
	}
}

func (h habits) tooMany() bool { return max(h.isWhat, h.who)*1000 > mostHabits*h.lines }

func (h habits) String() string {
	return fmt.Sprintf("%d lines, %d of \"is what\", %d of \"who\"", h.lines, h.isWhat, h.who)
}

// Comments of the product and documents are written in plain English. Generated code, tests, licences and the
// changelog are left out.
func TestPlainEnglish(t *testing.T) {
	out, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skip("not a git checkout")
	}
	var planted habits
	planted.add("// Count is how many there are.\n// nobody waits\n")
	require.Equal(t, habits{lines: 2, isWhat: 1, who: 1}, planted, "the test finds both habits")
	require.True(t, planted.tooMany())
	comments, docs := map[string]*habits{}, habits{}
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // deleted, and not committed yet
		}
		switch {
		case strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, ".pb.go"), name == "CHANGELOG.md":
		case strings.HasSuffix(name, ".md"):
			docs.add(string(text))
		case strings.HasSuffix(name, ".go"):
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			room := roomOf(name)
			if comments[room] == nil {
				comments[room] = &habits{}
			}
			for _, group := range file.Comments {
				for _, comment := range group.List {
					comments[room].add(comment.Text)
				}
			}
		}
	}
	require.False(t, docs.tooMany(), "documents: %v", docs)
	for room, h := range comments {
		// A small room may have one of each: it is a matter of habits.
		if max(h.isWhat, h.who) > 1 && h.tooMany() {
			t.Errorf("comments of %s: %v", room, h)
		}
	}
}

// roomOf returns the first two folders of a file's path, or fewer if it lies higher.
func roomOf(name string) string {
	parts := strings.Split(filepath.ToSlash(filepath.Dir(name)), "/")
	return strings.Join(parts[:min(2, len(parts))], "/")
}
