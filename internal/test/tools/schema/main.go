// Schema checks JSON values against the JSON Schemas of an OpenAPI 3.1 document, for the tests of cluster/httpapi. It
// serves JSON-RPC on its standard streams until its input ends.
package main

import (
	"bytes"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"net/url"
	"os"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func main() {
	server := rpc.NewServer()
	if err := server.Register(&Schema{made: map[string]*jsonschema.Schema{}}); err != nil {
		panic(err) // its methods do not fit
	}
	server.ServeCodec(jsonrpc.NewServerCodec(streams{os.Stdin, os.Stdout}))
}

// streams joins the standard streams. Its Close does nothing: the end of the process closes them.
type streams struct {
	io.Reader
	io.Writer
}

func (streams) Close() error { return nil }

// document is the URL that stands for the loaded document.
const document = "document.json"

// Schema is the service. Its methods can be called concurrently.
type Schema struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	made     map[string]*jsonschema.Schema
}

// Load loads a document. It must be called first, and once.
func (s *Schema) Load(text string, _ *struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
	if err != nil {
		return err
	}
	s.compiler = jsonschema.NewCompiler()
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	return s.compiler.AddResource(document, doc)
}

// Value is a JSON value, and the JSON pointer of its schema in the document.
type Value struct{ Pointer, JSON string }

// Check returns an error if a value does not match its schema.
func (s *Schema) Check(v Value, _ *struct{}) error {
	schema, err := s.compiled(v.Pointer)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(v.JSON)))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (s *Schema) compiled(pointer string) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if schema := s.made[pointer]; schema != nil {
		return schema, nil
	}
	schema, err := s.compiler.Compile(document + "#" + (&url.URL{Path: pointer}).EscapedPath())
	s.made[pointer] = schema
	return schema, err
}
