package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/internal/problem"
	"github.com/goverse/goverse/internal/test/tool"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// The document matches the Go types, the routes and the operations.
func TestOpenAPIIsCurrent(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	require.NoError(t, e.Encode(document(t)))
	if *update {
		require.NoError(t, os.WriteFile("openapi.json", text.Bytes(), 0o644)) //nolint:gosec // it is public
		return
	}
	require.Equal(t, text.String(), string(openAPIText),
		"run: go test ./cluster/httpapi -run TestOpenAPIIsCurrent -update")
}

// The document has every route with its method, and no other.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	t.Parallel()
	described := map[string]bool{}
	for path, item := range description.doc["paths"].(object) {
		for method := range item.(object) {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	h := newRouter(leader(), func() objectView { return nil }, Options{})
	for _, rt := range h.routes {
		at := rt.method + " " + rt.path
		require.True(t, described[at], "%s is not described", at)
		delete(described, at)
	}
	require.Empty(t, described, "there are no such routes")
}

// The documentation has each kind of problem and each route.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/http.md")
	require.NoError(t, err)
	require.Contains(t, string(text), "`"+problemTypes+"`")
	for _, k := range problemKinds {
		require.Contains(t, string(text), "\n### "+k.name+"\n", "the anchor that the type refers to")
		require.Contains(t, string(text), fmt.Sprintf("%d", k.status))
	}
	for _, rt := range newRouter(leader(), func() objectView { return nil }, Options{}).routes {
		require.Contains(t, string(text), strings.ReplaceAll(rt.path, "{name}", "NAME"))
	}
}

// description is the committed document. Every response of every test is checked against it.
var description = newDescription()

// described checks responses with the program internal/test/tools/schema, which it starts when it is first needed.
type described struct {
	doc    object
	schema func() (*tool.Tool, error)
}

func newDescription() *described {
	d := &described{}
	decoder := json.NewDecoder(bytes.NewReader(openAPIText))
	decoder.UseNumber()
	if err := decoder.Decode(&d.doc); err != nil {
		panic(err)
	}
	// Responses may gain fields, so clients must accept unknown ones; the present fields are all described.
	for _, s := range d.doc["components"].(object)["schemas"].(object) {
		s.(object)["additionalProperties"] = false
	}
	d.schema = sync.OnceValues(func() (*tool.Tool, error) {
		text, err := json.Marshal(d.doc)
		if err != nil {
			return nil, err
		}
		schema, err := tool.Run("schema")
		if err != nil {
			return nil, err
		}
		if err := schema.Call("Schema.Load", string(text), &struct{}{}); err != nil {
			return nil, errors.Join(err, schema.Close())
		}
		return schema, nil
	})
	return d
}

// close ends the program.
func (d *described) close() error {
	schema, err := d.schema()
	if err != nil {
		return err
	}
	return schema.Close()
}

// check returns nil if a response of h matches its description, otherwise the difference.
func (d *described) check(h *router, r *http.Request, w *httptest.ResponseRecorder) error {
	rt, _, found := h.findRoute(r.URL.EscapedPath())
	item, ours := d.doc["paths"].(object)[rt.path].(object)
	if found && !ours {
		return nil // a route of the test
	}
	media, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if err != nil {
		return err
	}
	pointer := ""
	switch {
	case !found && w.Code == http.StatusNotFound, found && !rt.acceptsMethod(r.Method) &&
		w.Code == http.StatusMethodNotAllowed:
		if media != problem.MediaType {
			return fmt.Errorf("it is %s", media)
		}
		pointer = "/components/schemas/Problem"
	default:
		method := strings.ToLower(rt.method)
		answers := item[method].(object)["responses"].(object)
		answer, ok := answers[fmt.Sprint(w.Code)].(object)
		if !ok {
			return fmt.Errorf("status %d is not described", w.Code)
		}
		escape := strings.NewReplacer("~", "~0", "/", "~1").Replace
		pointer = fmt.Sprintf("/paths/%s/%s/responses/%d", escape(rt.path), method, w.Code)
		if ref, shared := answer["$ref"].(string); shared {
			pointer = strings.TrimPrefix(ref, "#")
			answer = d.doc["components"].(object)["responses"].(object)[strings.TrimPrefix(ref, responses)].(object)
		}
		if _, ok := answer["content"].(object)[media]; !ok {
			return fmt.Errorf("status %d as %s is not described", w.Code, media)
		}
		pointer += "/content/" + escape(media) + "/schema"
	}
	body := w.Body.String()
	if strings.HasPrefix(media, "text/") {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		body = string(text)
	}
	schema, err := d.schema()
	if err != nil {
		return err
	}
	return schema.Call("Schema.Check", struct{ Pointer, JSON string }{pointer, body}, &struct{}{})
}

// Wrong descriptions are noticed.
func TestCheckNotices(t *testing.T) {
	t.Parallel()
	h := newRouter(leader(), func() objectView { return nil }, Options{})
	r := httptest.NewRequest(http.MethodGet, "/cluster/leader", nil)
	answer := func(status int, media, body string) error {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.WriteString(body)
		return description.check(h, r, w)
	}
	const good = `{"leader_id":"a:1","term":7,"token":7,"hostname":"h","api_url":""}`
	const p = `{"type":"about:blank","title":"x","status":503}`
	require.NoError(t, answer(200, "application/json", good))
	require.NoError(t, answer(503, problem.MediaType, p))
	for name, err := range map[string]error{
		"a missing field": answer(200, "application/json", `{"leader_id":"a:1"}`),
		"another field":   answer(200, "application/json", good[:len(good)-1]+`,"more":1}`),
		"another type":    answer(200, "application/json", strings.Replace(good, "7", `"7"`, 1)),
		"null":            answer(200, "application/json", strings.Replace(good, `"h"`, "null", 1)),
		"no time":         answer(200, "application/json", good[:len(good)-1]+`,"renewed_at":"yesterday"}`),
		"another status":  answer(404, problem.MediaType, p),
		"another media":   answer(503, "application/json", p),
		"no such problem": answer(503, problem.MediaType, strings.Replace(p, "about:blank", "about:all", 1)),
		"no JSON":         answer(200, "application/json", "{"),
	} {
		require.Error(t, err, name)
	}
}
