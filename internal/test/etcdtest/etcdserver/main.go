// Command etcdserver runs the etcds of one test process, which is its parent. It serves requests of package
// etcdcontrol at the address that it prints, and ends when its standard input does. So it outlives its parent by
// no more than it takes to delete the data.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"

	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/test/etcdtest/etcdcontrol"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "etcdserver:", err)
		os.Exit(1)
	}
}

// run serves requests until in ends.
func run(in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt) // the parent gets the same signal and decides
	dir, err := os.MkdirTemp("", "goverse-etcds-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"TMPDIR", "TMP"} { // of Unix and of Windows, for the data of all etcds
		if err := os.Setenv(name, dir); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &servers{running: map[int]*embedetcd.Server{}}
	go s.serve(l) // ends with the process
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	s.closeAll() // before their data is deleted
	return err
}

// servers holds the running etcds. It is safe for concurrent use.
type servers struct {
	mu      sync.Mutex
	started int
	running map[int]*embedetcd.Server // by number
}

func (s *servers) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go s.handle(conn)
	}
}

// handle serves the one request of a connection.
func (s *servers) handle(conn net.Conn) {
	defer conn.Close()
	var req etcdcontrol.Request
	if json.NewDecoder(conn).Decode(&req) != nil {
		return // the caller is gone
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, conn) // ends with the connection
		cancel()
	}()
	var resp etcdcontrol.Response
	var err error
	if req.Start != nil {
		resp, err = s.start(ctx, *req.Start)
	} else {
		err = s.close(req.Close)
	}
	if err != nil {
		resp.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(resp)
}

func (s *servers) start(ctx context.Context, c etcdcontrol.Config) (etcdcontrol.Response, error) {
	cfg := embedetcd.Config{UnsafeNoFsync: true, DataDir: c.DataDir, ListenClient: c.ListenClient,
		AdvertiseClient: c.AdvertiseClient, ClientTLS: embedetcd.TLS(c.ClientTLS)}
	if !c.DefaultTiming {
		cfg = embedetcd.TestTiming(cfg)
	}
	server, err := embedetcd.Start(ctx, cfg)
	if err != nil {
		return etcdcontrol.Response{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	s.running[s.started] = server
	return etcdcontrol.Response{Number: s.started, Endpoint: server.Endpoint()}, nil
}

// closeAll closes all etcds that run.
func (s *servers) closeAll() {
	s.mu.Lock()
	running := s.running
	s.running = map[int]*embedetcd.Server{}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, server := range running {
		wg.Go(func() { _ = server.Close() })
	}
	wg.Wait()
}

var errNoSuchServer = errors.New("no such etcd runs")

func (s *servers) close(number int) error {
	s.mu.Lock()
	server := s.running[number]
	delete(s.running, number)
	s.mu.Unlock()
	if server == nil {
		return errNoSuchServer
	}
	return server.Close()
}
