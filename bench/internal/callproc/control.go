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

// service is what a process that calls is asked for.
type service struct {
	caller *caller
	keys   func(n int) ([]string, error) // nil: it is no node
}

// Measure makes calls.
func (s *service) Measure(l Load, f *Figures) (err error) {
	*f, err = s.caller.measure(&l)
	return err
}

// Keys are those of objects at the other node.
func (s *service) Keys(n int, keys *[]string) (err error) {
	if s.keys == nil {
		return errors.New("this caller is no node")
	}
	*keys, err = s.keys(n)
	return err
}

// control serves the program that measures until ctx ends.
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
	go func() { // ends with the connection, at the latest with the process
		conn, err := listener.Accept()
		if err == nil {
			server.ServeConn(conn)
		}
	}()
	reexec.Ready(listener.Addr().String() + " " + node)
	<-ctx.Done()
	return nil
}

// Caller is a process that makes calls. End it with Stop.
type Caller struct {
	// Address is that of a node; "" if it is none.
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

// Measure has the process make calls. After the end of ctx the process is to be stopped.
func (c *Caller) Measure(ctx context.Context, l Load) (f Figures, err error) {
	err = c.call(ctx, "Measure", l, &f)
	return f, err
}

// Keys are those of n objects at the other node.
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
