package callproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"

	"github.com/goverse/goverse/bench/internal/reexec"
)

const serviceName = "Caller"

// service serves the measuring program's requests in a calling process.
type service struct {
	caller *caller
	keys   func(n int) ([]string, error) // nil if the process is no node
}

// Measure makes the calls of a load.
func (s *service) Measure(l Load, f *Figures) (err error) {
	*f, err = s.caller.measure(&l)
	return err
}

// Keys returns keys of n objects at the other node.
func (s *service) Keys(n int, keys *[]string) (err error) {
	if s.keys == nil {
		return errors.New("this caller is no node")
	}
	*keys, err = s.keys(n)
	return err
}

// control serves the measuring program until ctx ends.
func control(ctx context.Context, s *service, node string) error {
	server := rpc.NewServer()
	if err := server.RegisterName(serviceName, s); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	go func() { // ends with the connection, or with the process at the latest
		conn, err := listener.Accept()
		if err == nil {
			server.ServeConn(conn)
		}
	}()
	reexec.Ready(listener.Addr().String() + " " + node)
	<-ctx.Done()
	return nil
}

// Caller is a process that makes calls. Stop ends it.
type Caller struct {
	// Address is the address of its node, or "" if it is no node.
	Address string

	*reexec.Process
	client *rpc.Client
}

func startCaller(args ...string) (*Caller, error) {
	p, err := reexec.Start(args...)
	if err != nil {
		return nil, err
	}
	own, node := addresses(p.Said)
	client, err := rpc.Dial("tcp", own)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", args[0], err), p.Stop())
	}
	return &Caller{Address: node, Process: p, client: client}, nil
}

// Measure makes the process execute the load. If ctx ends, the process must be stopped.
func (c *Caller) Measure(ctx context.Context, l Load) (f Figures, err error) {
	err = c.call(ctx, "Measure", l, &f)
	return f, err
}

// Keys returns keys of n objects at the other node.
func (c *Caller) Keys(ctx context.Context, n int) (keys []string, err error) {
	err = c.call(ctx, "Keys", n, &keys)
	return keys, err
}

func (c *Caller) call(ctx context.Context, method string, request, reply any) error {
	call := c.client.Go(serviceName+"."+method, request, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return call.Error
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop ends the process and waits for it.
func (c *Caller) Stop() error {
	return errors.Join(c.client.Close(), c.Process.Stop())
}
