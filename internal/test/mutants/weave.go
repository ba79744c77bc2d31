package mutants

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// switchPath is the package that selects the active mutant.
const switchPath = "internal/mutant"

// switchSource is the source of that package, which exists only in the overlay. The names of all mutants are
// filled in.
const switchSource = `package mutant

import "os"

var on = os.Getenv("` + Variable + `")

func init() {
	switch on {
	case "", %s:
	default:
		panic("` + Variable + ` is not the name of a mutant: " + on)
	}
}

// Is reports whether that mutant is on.
func Is(name string) bool { return on == name }
`

// sourceChange is a part of a source, and its replacement.
type sourceChange struct {
	from, to int
	text     string
}

// weaveMutants returns the source of a file with the mutants that edit it; path is the file's path. A mutant is active
// only if the switch selects it. The lines keep their numbers.
func weaveMutants(module, file, path string, src []byte, mutants []Mutant) ([]byte, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	woven := []sourceChange{{offset(parsed.Name.End()), offset(parsed.Name.End()),
		fmt.Sprintf("; import mutant %q", module+"/"+switchPath)}}
	bodies := map[*ast.FuncDecl]string{}
	for _, m := range mutants {
		spans, err := placeEdits(parsed, offset, file, src, m)
		if err != nil {
			return nil, fmt.Errorf("mutant %s does not fit: %w", m.Name, err)
		}
		for f, changes := range spans {
			from := fset.Position(f.Body.Lbrace + 1)
			body, end := applyChanges(src, from.Offset, offset(f.Body.Rbrace), changes), "return"
			if f.Type.Results != nil {
				end = fmt.Sprintf("panic(%q)", "mutant "+m.Name+": the function returns nothing")
			}
			bodies[f] += fmt.Sprintf("if mutant.Is(%q) {%s%s\n%s\n};", m.Name, lineDirective(from), body, end)
		}
	}
	for f, text := range bodies {
		from := fset.Position(f.Body.Lbrace + 1)
		woven = append(woven, sourceChange{from.Offset, from.Offset, text + lineDirective(from)})
	}
	return applyChanges(src, 0, len(src), woven), nil
}

// placeEdits finds the functions that a mutant edits in a file, and the edits in each.
func placeEdits(parsed *ast.File, offset func(token.Pos) int, file string, src []byte, m Mutant) (
	map[*ast.FuncDecl][]sourceChange, error,
) {
	spans := map[*ast.FuncDecl][]sourceChange{}
	for _, e := range m.Edits {
		if e.File != file {
			continue
		}
		if n := bytes.Count(src, []byte(e.Old)); n != 1 || e.Old == "" {
			return nil, fmt.Errorf("%s has %d times, not once: %q", file, n, e.Old)
		}
		from := bytes.Index(src, []byte(e.Old))
		change := sourceChange{from, from + len(e.Old), e.New}
		at := slices.IndexFunc(parsed.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Body != nil && offset(f.Body.Lbrace) < change.from && change.to <= offset(f.Body.Rbrace)
		})
		if at < 0 {
			return nil, fmt.Errorf("%s has it in the body of no function: %q", file, e.Old)
		}
		f, _ := parsed.Decls[at].(*ast.FuncDecl)
		for _, other := range spans[f] {
			if change.from < other.to && other.from < change.to {
				return nil, fmt.Errorf("%s: another edit changes a part of it: %q", file, e.Old)
			}
		}
		spans[f] = append(spans[f], change)
	}
	return spans, nil
}

// applyChanges returns a part of the source with the changes applied.
func applyChanges(src []byte, from, to int, changes []sourceChange) []byte {
	slices.SortFunc(changes, func(a, b sourceChange) int { return a.from - b.from })
	var out []byte
	for _, c := range changes {
		out = append(append(out, src[from:c.from]...), c.text...)
		from = c.to
	}
	return append(out, src[from:to]...)
}

// lineDirective returns a directive that sets the compiler's position to p.
func lineDirective(p token.Position) string {
	return fmt.Sprintf("/*line %s:%d:%d*/", p.Filename, p.Line, p.Column)
}

// checkMutants returns an error if two mutants share a name, or if an edit changes nothing.
func checkMutants(mutants []Mutant) error {
	seen := map[string]bool{}
	for _, m := range mutants {
		switch {
		case seen[m.Name]:
			return fmt.Errorf("mutant %s is there twice", m.Name)
		case m.Name == "":
			return errors.New("a mutant has no name")
		case len(m.Edits) == 0, slices.ContainsFunc(m.Edits, func(e Edit) bool { return e.Old == e.New }):
			return fmt.Errorf("mutant %s: an edit changes nothing", m.Name)
		}
		seen[m.Name] = true
	}
	return nil
}

// switchCode returns the source of the switch between these mutants.
func switchCode(mutants []Mutant) []byte {
	var names []string
	for _, m := range mutants {
		names = append(names, fmt.Sprintf("%q", m.Name))
	}
	return fmt.Appendf(nil, switchSource, strings.Join(names, ", "))
}
