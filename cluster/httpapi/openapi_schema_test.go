package httpapi

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/internal/problem"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/shard"
)

// object is a JSON object.
type object = map[string]any

// enums lists the values of types, and of fields that are plain strings in Go.
var enums = map[string][]any{
	"cluster.MemberState": {cluster.MemberCandidate, cluster.MemberFollower, cluster.MemberLeader,
		cluster.MemberObserver},
	"once.State":       {once.Done, once.Failed, once.Running, once.Unknown, once.Unreadable},
	"shard.OwnerState": {shard.Alive, shard.Draining, shard.Gone},
	"objects.Reason": {objects.Evicted, objects.Failed, objects.Idle, objects.Lost, objects.Moved, objects.Requested,
		objects.Stopping},
	"Status.state":           nodeStates,
	"Health.state":           nodeStates,
	"Status.mode":            {"election", "fallback"},
	"Health.status":          {HealthDegraded, HealthHealthy},
	"Node.health":            {HealthDegraded, HealthHealthy, HealthSilent, HealthSuspected},
	"Lock.mode":              {LockExclusive, LockShared},
	"ObjectActivity.state":   {"activating", "active", "deactivating", "waiting"},
	"ResolveRequest.outcome": {once.Done, once.Failed},
	"Problem.type":           problemTypesOf(),
}

var nodeStates = []any{cluster.StateCandidate, cluster.StateFollower, cluster.StateLeader, cluster.StateStarting,
	cluster.StateStopped}

func problemTypesOf() []any {
	all := []any{problem.BlankType}
	for _, k := range problemKinds {
		all = append(all, problemTypes+k.name)
	}
	return all
}

// schemas builds schemas from Go types and describes them by their comments.
type schemas struct {
	comments  map[string]string // by Type, or Type.Field
	made      object
	responses object // shared by several routes
}

func newSchemas(t *testing.T) *schemas {
	t.Helper()
	s := &schemas{comments: map[string]string{}, made: object{}, responses: object{}}
	for _, dir := range []string{".", "../shard", "../../cluster/internal/problem"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, parser.ParseComments)
			require.NoError(t, err)
			ast.Inspect(parsed, s.read)
		}
	}
	return s
}

// read records the comments of type declarations.
func (s *schemas) read(n ast.Node) bool {
	decl, ok := n.(*ast.GenDecl)
	if !ok {
		return true
	}
	for _, spec := range decl.Specs {
		named, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		s.comments[named.Name.Name] = sentence(decl.Doc.Text())
		fields, ok := named.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range fields.Fields.List {
			for _, name := range field.Names {
				s.comments[named.Name.Name+"."+name.Name] = sentence(field.Doc.Text() + " " + field.Comment.Text())
			}
		}
	}
	return true
}

func sentence(text string) string { return strings.Join(strings.Fields(text), " ") }

// of returns the schema of a type; structs become references.
func (s *schemas) of(v reflect.Type) object {
	if values, limited := enums[v.String()]; limited {
		return object{"type": "string", "enum": values}
	}
	switch {
	case v == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case v == reflect.TypeFor[json.RawMessage]():
		return object{} // any JSON
	case v == reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	}
	switch v.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Pointer:
		return s.of(v.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": s.of(v.Elem())}
	case reflect.Map:
		m := object{"type": "object", "additionalProperties": s.of(v.Elem())}
		if values, limited := enums[v.Key().String()]; limited {
			m["propertyNames"] = object{"enum": values}
		}
		return m
	case reflect.Struct:
		return s.ref(v)
	}
	panic("there is no schema for " + v.String())
}

// ref returns a reference to a struct's schema, which it builds if necessary.
func (s *schemas) ref(v reflect.Type) object {
	name := strings.ToUpper(v.Name()[:1]) + v.Name()[1:]
	if _, there := s.made[name]; !there {
		made := object{"type": "object"}
		if says := s.comments[v.Name()]; says != "" {
			made["description"] = says
		}
		if v == reflect.TypeFor[empty]() || strings.HasSuffix(name, "Request") {
			made["additionalProperties"] = false // calls refuse unknown fields
		}
		s.made[name] = made
		properties, required := object{}, []string{}
		s.fields(v, name, properties, &required)
		slices.Sort(required)
		made["properties"], made["required"] = properties, required
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// fields adds the fields of a struct and of its embedded structs.
func (s *schemas) fields(v reflect.Type, name string, properties object, required *[]string) {
	for field := range v.Fields() {
		if field.Anonymous {
			s.fields(field.Type, name, properties, required)
			continue
		}
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == "-" {
			continue // it is in no response
		}
		schema := s.of(field.Type)
		if values, limited := enums[name+"."+tag]; limited {
			schema["enum"] = values
		}
		if says := s.comments[v.Name()+"."+field.Name]; says != "" {
			schema["description"] = says // OpenAPI 3.1 also allows it beside a $ref
		}
		properties[tag] = schema
		if options == "" {
			*required = append(*required, tag)
		}
	}
}
