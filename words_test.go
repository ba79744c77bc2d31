package goverse

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// coined matches words that this project once used with meanings of its own; CONTRIBUTING.md has the field's
// words. Where such a word has its plain meaning, another one must replace it.
var coined = regexp.MustCompile(`(?i)\b(wish(es|ed|ing)?|hands? from outside|(let|lets|letting) go|letgo|` +
	`comings|amiss|heed(s|ed|ing)?|foresee\w*|foresight|emptied|levell(ed|ing)|chairs?|towns?|happenings?|` +
	`strikes?|relieved?|gated|fates?|doubt(s|ed|ful)?|stretch(es)?|deaf|whoever|untold|scenes?|` +
	`for ever|tr(ies|y|ying) on|dealt out|mend(s|ed|ing)?|not to be had|of no account|shall)\b`)

// coinedIn matches such words inside names in mixed case.
var coinedIn = regexp.MustCompile(`Wish|LetGo|letGo|Comings|Foresee|Foresight|Emptied|Levelled|Happening|` +
	`[a-z]Doubt|Doubted|Stretch([A-Z]|\b)`)

// grace matches the word when it stands for the grace period. notGrace matches its allowed uses, such as the
// flag: `--grace`, "grace".
var (
	grace    = regexp.MustCompile(`(?i)\bgraces?\b`)
	notGrace = regexp.MustCompile(`(?i)\bgrace[- ]periods?\b|--grace\b|"grace"`)
)

// wordsOf returns the numbers of a text's lines with coined words.
func wordsOf(text string) (lines []int) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if coined.MatchString(line) || coinedIn.MatchString(line) ||
			grace.MatchString(notGrace.ReplaceAllString(line, "")) {
			lines = append(lines, number)
		}
	}
	return lines
}

// Code, comments, documentation, flags, logs and JSON use the field's English; see CONTRIBUTING.md.
func TestNoCoinedWords(t *testing.T) {
	out, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skip("not a git checkout")
	}
	require.Equal(t, []int{1, 3}, wordsOf("// a wish\n// a request\nfunc emptiedLevelled()\n"), "the test finds them")
	require.Equal(t, []int{1, 2, 3}, wordsOf("// After the grace it is removed.\n// three graces\n// Grace\n"+
		"// the grace period, --grace and handlerGrace\n"), "grace alone, too")
	for _, name := range strings.Fields(string(out)) {
		switch {
		case name == "LICENSE", name == "words_test.go", name == "english_test.go", name == "CONTRIBUTING.md",
			name == "CHANGELOG.md": // these list them
			continue
		case strings.HasSuffix(name, ".pb.go"), filepath.Ext(name) == ".sum", strings.HasSuffix(name, ".svg"),
			strings.HasSuffix(name, ".png"):
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			continue // deleted, and not committed yet
		}
		for _, line := range wordsOf(string(text)) {
			t.Errorf("%s:%d has a word that CONTRIBUTING.md has a better one for", name, line)
		}
	}
}
