package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// These markers enclose the generated part of the documentation.
const (
	begin = "<!-- bench:begin, written by bench/cmd/bench -->"
	end   = "<!-- bench:end -->"
)

// ErrMarkers is returned when the document lacks the markers.
var ErrMarkers = errors.New("the document has no place for the tables: give it a line " + begin +
	" and after it a line " + end)

// Markdown returns the tables of the results. Its links to pictures point into pictureDir.
func Markdown(results []*Result, pictureDir string) string {
	var b strings.Builder
	for i, r := range results {
		if i == 0 || r.Machine != results[i-1].Machine {
			fmt.Fprintf(&b, "Machine: %s.\n\n", r.Machine)
		}
		b.WriteString(r.Markdown(pictureDir))
	}
	return b.String()
}

// Markdown returns one target's table.
func (r *Result) Markdown(pictureDir string) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "### %s: %s\n\n", r.Target, r.Title)
	fmt.Fprintf(b, "%s, `%s`", r.When.UTC().Format("2006-01-02 15:04 UTC"), r.Command)
	if r.Quick {
		b.WriteString("; a quick run, with too few samples to judge by")
	}
	b.WriteString("\n\n| what | target | measured | verdict |\n|---|---|---|---|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", cell(row.What), cell(row.Wanted), cell(row.Measured), row.Verdict)
	}
	b.WriteString("\n")
	for _, note := range r.Notes {
		fmt.Fprintf(b, "* %s\n", note)
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, p := range r.Pictures {
		fmt.Fprintf(b, "![%s](%s)\n\n", strings.TrimSuffix(p, ".svg"), filepath.ToSlash(filepath.Join(pictureDir, p)))
	}
	return b.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// UpdateDocument replaces the text between the markers of the file at path.
func UpdateDocument(path, section string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s: %w", path, ErrMarkers)
	}
	return os.WriteFile(path, []byte(head+begin+"\n\n"+strings.TrimSpace(section)+"\n\n"+end+tail), 0o644)
}
