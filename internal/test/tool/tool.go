// Package tool starts programs of the module internal/test/tools, which need libraries that the root module does not
// require. They serve JSON-RPC on their standard streams, and end with the test.
//
//	schema := tool.Start(t, "schema")
//	err := schema.Call("Schema.Check", ...)
//
// The go command builds a program when it is first started, and caches it. Where it cannot build one, for example
// because the module's libraries are not available, Start reports that as an error of the first call.
package tool

import (
	"bytes"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tool is a running program. Its methods can be called concurrently.
type Tool struct {
	client  *rpc.Client
	streams *streams
	cmd     *exec.Cmd
	stderr  *output
}

// Start starts a program of the module, which ends with the test.
func Start(t testing.TB, name string) *Tool {
	t.Helper()
	p, err := Run(name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// Run starts a program of the module. The caller must call Close.
func Run(name string) (*Tool, error) {
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return nil, fmt.Errorf("find the root module: %w", err)
	}
	dir := filepath.Join(filepath.Dir(strings.TrimSpace(string(module))), "internal", "test", "tools")
	p := &Tool{cmd: exec.Command("go", "run", "-C", dir, "./"+name), stderr: &output{}}
	p.cmd.Stderr = p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.streams = &streams{in: in, out: out, ended: make(chan struct{})}
	p.client = jsonrpc.NewClient(p.streams)
	return p, nil
}

// Call calls a method of the program and waits for its reply. An error includes what the program has printed.
func (p *Tool) Call(method string, args, reply any) error {
	err := p.client.Call(method, args, reply)
	if said := p.stderr.String(); err != nil && said != "" {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return err
}

// Close ends the program, waits for it, and returns an error if it failed.
func (p *Tool) Close() error {
	_ = p.client.Close() // closes the program's input; it may have ended already
	<-p.streams.ended
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, p.stderr)
	}
	return nil
}

// streams joins a program's input and output. The end of the output closes ended.
type streams struct {
	in    io.WriteCloser
	out   io.Reader
	once  sync.Once
	ended chan struct{}
}

func (s *streams) Read(b []byte) (int, error) {
	n, err := s.out.Read(b)
	if err != nil {
		s.once.Do(func() { close(s.ended) })
	}
	return n, err
}

func (s *streams) Write(b []byte) (int, error) { return s.in.Write(b) }

// Close closes the program's input, after which it ends. Its output closes when it has ended.
func (s *streams) Close() error { return s.in.Close() }

// output collects text.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
