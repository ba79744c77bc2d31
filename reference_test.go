package goverse

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateDocs = flag.Bool("docs.update", false, "write the generated parts of docs/reference anew")

// generatedBelow separates the written part of a page from the generated one.
const generatedBelow = "<!-- generated below: go test . -run TestReferencePages -docs.update -->\n"

// configurations lists the structs of docs/reference/config.md, as folder and type.
var configurations = []string{"cluster.Config", "cluster.Sharding", "cluster.ObjectsConfig", "cluster.CrashDetection",
	"cluster.EventLog", "cluster/leaderelection.Config", "cluster/objects/client.Config", "cluster/httpapi.Options",
	"cluster/leaderonly.Options", "cluster/elector.Config", "cluster/processor.Config", "cluster/automation.Config",
	"cluster/objects/state/postgres.Config", "node.Config", "node/mtls.Config", "embedetcd.Config"}

// The generated parts of docs/reference match the code. Regenerate them with
//
//	go test . -run TestReferencePages -docs.update
func TestReferencePages(t *testing.T) {
	for page, text := range map[string]string{"config": configReference(t), "events": eventReference(t),
		"errors": errorReference(t)} {
		file := filepath.Join("docs", "reference", page+".md")
		have, err := os.ReadFile(file)
		require.NoError(t, err)
		written, generated, found := strings.Cut(string(have), generatedBelow)
		require.True(t, found, "%s has the line %s", file, generatedBelow)
		if *updateDocs {
			require.NoError(t, os.WriteFile(file, []byte(written+generatedBelow+"\n"+text), 0o644)) //nolint:gosec // public
			continue
		}
		require.Equal(t, text, strings.TrimPrefix(generated, "\n"), "%s is not current", file)
	}
}

// parsedPackage is the documentation of a folder's package, with its positions.
type parsedPackage struct {
	*doc.Package
	fset *token.FileSet
}

func parsePackage(t *testing.T, folder string) parsedPackage {
	t.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	p, err := doc.NewFromFiles(fset, files, "github.com/goverse/goverse/"+folder)
	require.NoError(t, err)
	return parsedPackage{p, fset}
}

// cell returns a comment as the content of a table's cell.
func cell(comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	return strings.ReplaceAll(text, "|", `\|`)
}

// fieldType returns a field's type as it is written, short for functions.
func fieldType(e ast.Expr) string { return strings.ReplaceAll(types.ExprString(e), "|", `\|`) }

// configReference lists the fields of all configurations.
func configReference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, name := range configurations {
		folder, typeName, _ := cutLast(name, ".")
		p := parsePackage(t, folder)
		i := slices.IndexFunc(p.Types, func(x *doc.Type) bool { return x.Name == typeName })
		require.GreaterOrEqual(t, i, 0, name)
		spec, ok := p.Types[i].Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
		require.True(t, ok, name)
		fmt.Fprintf(&b, "## %s\n\n| field | type | |\n|---|---|---|\n", filepath.Base(folder)+"."+typeName)
		for _, field := range spec.Fields.List {
			comment := cell(field.Doc.Text())
			for _, ident := range field.Names {
				if ident.IsExported() {
					fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", ident.Name, fieldType(field.Type), comment)
					comment = "as above"
				}
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// eventReference lists the types of events.
func eventReference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| event | meaning |\n|---|---|\n")
	p := parsePackage(t, "cluster/event")
	i := slices.IndexFunc(p.Types, func(x *doc.Type) bool { return x.Name == "Type" })
	require.GreaterOrEqual(t, i, 0)
	count := 0
	for _, group := range p.Types[i].Consts {
		for _, spec := range group.Decl.Specs {
			value := spec.(*ast.ValueSpec)
			for k, ident := range value.Names {
				name := strings.Trim(value.Values[k].(*ast.BasicLit).Value, `"`)
				comment := strings.TrimPrefix(cell(value.Doc.Text()), ident.Name+" means that ")
				fmt.Fprintf(&b, "| `%s` | %s |\n", name, comment)
				count++
			}
		}
	}
	require.Greater(t, count, 10)
	return b.String()
}

// errorReference lists the exported errors of all public packages.
func errorReference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, folder := range publicPackages(t) {
		p, rows := parsePackage(t, folder), []string{}
		for _, group := range p.Vars {
			for _, spec := range group.Decl.Specs {
				value := spec.(*ast.ValueSpec)
				comment := value.Doc.Text()
				if comment == "" && len(group.Decl.Specs) == 1 {
					comment = group.Doc
				}
				for _, ident := range value.Names {
					if strings.HasPrefix(ident.Name, "Err") && ident.IsExported() {
						rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", ident.Name, cell(comment)))
					}
				}
			}
		}
		if len(rows) > 0 && !strings.Contains(p.Doc, "Deprecated:") {
			fmt.Fprintf(&b, "## %s\n\n| error | |\n|---|---|\n%s\n", folder, strings.Join(rows, ""))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// publicPackages returns the folders of the packages that other modules may import, without commands, examples and
// generated code.
func publicPackages(t *testing.T) (folders []string) {
	t.Helper()
	for _, root := range []string{"cluster", "clustertest", "embedetcd", "node"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if d.Name() == "internal" || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			if files, err := filepath.Glob(filepath.Join(path, "*.go")); err != nil || len(files) > 0 {
				folders = append(folders, filepath.ToSlash(path))
			}
			return nil
		}))
	}
	return folders
}

// Every public package has an example that runs, and begins its documentation with its purpose.
func TestPublicPackagesAreDocumented(t *testing.T) {
	for _, folder := range publicPackages(t) {
		p := parsePackage(t, folder)
		require.True(t, strings.HasPrefix(p.Doc, "Package "+p.Name+" "), "the comment of %s begins with its purpose", folder)
		if strings.Contains(p.Doc, "Deprecated:") {
			continue
		}
		fset, found := token.NewFileSet(), false
		tests, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*_test.go"))
		require.NoError(t, err)
		for _, name := range tests {
			file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, example := range doc.Examples(file) {
				found = found || example.Output != "" || example.EmptyOutput
			}
		}
		require.True(t, found || slices.Contains(withoutExample, folder), "%s has no example that runs", folder)
	}
}

// withoutExample lists public packages that need servers which an example cannot start, or hold only names for another
// package whose examples use them.
var withoutExample = []string{
	"cluster/automation/postgres", "cluster/elector/postgres", "cluster/leaderelection/postgres",
	"cluster/lock/postgres", "cluster/objects/state/postgres", "cluster/once/postgres", "cluster/pgnode",
	"cluster/pgsession", "cluster/processor/postgres", // PostgreSQL
	"cluster/elector/redis", // Redis
	"cluster/elector/electortest", "cluster/lock/locktest", "cluster/objects/state/statetest", "cluster/once/oncetest",
	"cluster/processor/checkpointtest", // suites: their examples are the tests of the stores

	"cluster/once", "cluster/httpapi", // their handles are those of package cluster
	"cluster/objects/state/etcd", "cluster/objects/tracing", "clustertest/history",
}
