package goverse

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

var (
	// link matches the target of a link or a picture in Markdown.
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// heading matches the text of a heading.
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	// anchor matches an anchor written in HTML.
	anchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	// fencedCode and quotedCode match code, in which nothing is a link.
	fencedCode = regexp.MustCompile("(?ms)^```.*?^```$")
	quotedCode = regexp.MustCompile("`[^`\n]+`")
)

// anchors returns the anchors of a document, as GitHub makes them of its headings.
func anchors(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(fencedCode.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, link.ReplaceAllString(m[1], ""))
		all = append(all, name)
	}
	for _, m := range anchor.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// targets returns the relative targets of the links in a document.
func targets(text string) (all []string) {
	text = quotedCode.ReplaceAllString(fencedCode.ReplaceAllString(text, ""), "code")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
			all = append(all, m[1])
		}
	}
	return all
}

// Every relative link in a document leads to a file or folder, and its anchor to a heading. Every page of docs can be
// reached from docs/README.md.
func TestLinks(t *testing.T) {
	require.Equal(t, []string{"a-b--c", "x"}, anchors("# A `b`: – C\n```\n# no\n```\n<a id=\"x\">"))
	require.Equal(t, []string{"x.md#y", "p.svg"}, targets("[a](x.md#y) `[b](z)` [c](https://d) ![e](p.svg)"))
	texts, next := map[string]string{}, map[string][]string{}
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		texts[name] = string(text)
	}
	for name, text := range texts {
		for _, target := range targets(text) {
			file, fragment, _ := strings.Cut(target, "#")
			to := name
			if file != "" {
				to = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", name, target)
				continue
			}
			next[name] = append(next[name], to)
			if fragment != "" && strings.HasSuffix(to, ".md") && !slices.Contains(anchors(texts[to]), fragment) {
				t.Errorf("%s links to %s, which has no such heading", name, target)
			}
		}
	}
	reached := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if !reached[name] {
			reached[name] = true
			for _, to := range next[name] {
				visit(to)
			}
		}
	}
	visit("docs/README.md")
	for name := range texts {
		if strings.HasPrefix(name, "docs/") && !reached[name] {
			t.Errorf("%s cannot be reached from docs/README.md", name)
		}
	}
}
