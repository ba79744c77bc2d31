package goverse

import (
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const apiFile = "docs/policy/api.txt"

var updateAPI = flag.Bool("api.update", false, "write "+apiFile+" anew")

// No exported name of a public package goes away unnoticed. A file records them as they were at the last release, or
// at the last intended break; new names do not fail the test. The file is a text of our own, from go/types, because
// the form in which apidiff records an API is the compiler's: a reader cannot review it, and it differs from one
// release of Go to the next.
func TestAPI(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("some packages have other names on other systems; the file is for Linux")
	}
	got := recordAPI(t)
	if *updateAPI {
		require.NoError(t, os.WriteFile(apiFile, []byte(got), 0o644)) //nolint:gosec // it is public
		return
	}
	recorded, err := os.ReadFile(apiFile)
	require.NoError(t, err)
	gone, added := compareAPI(string(recorded), got)
	for _, line := range gone {
		t.Errorf("gone: %s", line)
	}
	for _, line := range added {
		t.Logf("new: %s", line)
	}
	require.False(t, t.Failed(), "programs that use these no longer compile. A stable name goes away as "+
		"docs/policy/deprecation.md says; if that is done, run: make api")
}

// The comparison sees lines that went away and new ones, each with its package.
func TestCompareAPI(t *testing.T) {
	gone, added := compareAPI("package a\nfunc F()\nfunc G()\n\npackage b\nfunc F()\n",
		"package a\nfunc F(int)\nfunc G()\n\npackage b\nfunc F()\nfunc G()\n")
	require.Equal(t, []string{"a: func F()"}, gone)
	require.Equal(t, []string{"a: func F(int)", "b: func G()"}, added)
}

// compareAPI returns the lines that are in the first record alone, and those in the second alone, in order.
func compareAPI(before, after string) (gone, added []string) {
	lines := func(record string) map[string]bool {
		all, pkg := map[string]bool{}, ""
		for line := range strings.Lines(record) {
			line = strings.TrimSpace(line)
			if name, ok := strings.CutPrefix(line, "package "); ok {
				pkg = name
			}
			all[pkg+": "+line] = true
		}
		return all
	}
	first, second := lines(before), lines(after)
	for _, line := range slices.Sorted(maps.Keys(first)) {
		if !second[line] {
			gone = append(gone, line)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(second)) {
		if !first[line] {
			added = append(added, line)
		}
	}
	return gone, added
}

// recordAPI returns the exported names of all public packages, as the compiler exports them.
func recordAPI(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./...")
	cmd.Env = append(os.Environ(), "GOOS=linux")
	out, err := cmd.Output()
	require.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(files[path])
	})
	var text strings.Builder
	text.WriteString("# The exported names of the public packages. `make api` writes this file; TestAPI compares it.\n")
	stable := stablePackages(t)
	for _, name := range importablePackages(t) {
		pkg, err := from.Import(module + "/" + name)
		require.NoError(t, err, name)
		note := ""
		if !slices.Contains(stable, name) {
			note = " (experimental)"
		}
		fmt.Fprintf(&text, "\npackage %s%s\n", name, note)
		for _, line := range describePackage(pkg) {
			fmt.Fprintln(&text, line)
		}
	}
	return text.String()
}

// describePackage returns a line for each exported name of a package, for each exported field of its structs, and for
// each method.
func describePackage(pkg *types.Package) (lines []string) {
	d := describer{pkg}
	for _, name := range pkg.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		switch object := pkg.Scope().Lookup(name).(type) {
		case *types.Const:
			lines = append(lines, fmt.Sprintf("const %s %s = %s", name, d.text(object.Type()), object.Val().ExactString()))
		case *types.TypeName:
			lines = append(lines, d.describeType(object)...)
		default:
			lines = append(lines, types.ObjectString(object, d.qualify))
		}
	}
	return lines
}

// describer writes the types of one package. Names of that package stand alone, others have their package.
type describer struct{ pkg *types.Package }

func (d describer) qualify(other *types.Package) string {
	if other == d.pkg {
		return ""
	}
	return strings.TrimPrefix(other.Path(), module+"/")
}

func (d describer) text(t types.Type) string { return types.TypeString(t, d.qualify) }

func (d describer) describeType(object *types.TypeName) (lines []string) {
	if object.IsAlias() {
		return []string{fmt.Sprintf("type %s = %s", object.Name(), d.text(types.Unalias(object.Type())))}
	}
	named := object.Type().(*types.Named)
	name := d.text(named)
	switch under := named.Underlying().(type) {
	case *types.Struct:
		lines = append(lines, fmt.Sprintf("type %s struct", name))
		for i := range under.NumFields() {
			if field := under.Field(i); field.Exported() {
				line := fmt.Sprintf("field %s.%s %s", object.Name(), field.Name(), d.text(field.Type()))
				lines = append(lines, strings.TrimSpace(line+" "+under.Tag(i)))
			}
		}
	case *types.Interface:
		lines = append(lines, fmt.Sprintf("type %s interface", name))
		for method := range under.Methods() {
			if !method.Exported() {
				lines = append(lines, fmt.Sprintf("method %s: others cannot implement it", object.Name()))
				continue
			}
			lines = append(lines, d.describeMethod(object.Name(), method))
		}
		return lines
	default:
		lines = append(lines, fmt.Sprintf("type %s %s", name, d.text(under)))
	}
	values, all := types.NewMethodSet(named), types.NewMethodSet(types.NewPointer(named))
	for selection := range all.Methods() {
		method, ok := selection.Obj().(*types.Func)
		if !ok || !method.Exported() {
			continue
		}
		receiver := object.Name()
		if values.Lookup(method.Pkg(), method.Name()) == nil {
			receiver = "*" + receiver
		}
		lines = append(lines, d.describeMethod(receiver, method))
	}
	return lines
}

func (d describer) describeMethod(receiver string, method *types.Func) string {
	return fmt.Sprintf("method %s.%s%s", receiver, method.Name(),
		strings.TrimPrefix(d.text(method.Signature()), "func"))
}
