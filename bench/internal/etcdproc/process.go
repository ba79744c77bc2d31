// Package etcdproc runs the measured etcd as a process of its own. So its work does not count as work of the
// measuring program, and every request crosses a TCP socket, as in a real cluster.
//
// The process is this very binary, started again; see [Serve]. It serves an embedded etcd with etcd's
// default timing and with fsync. It ends when its standard input closes, so nothing is left behind if the
// parent dies.
//
// # What is not promised
//
// The two processes do not have the cores to themselves. Figures from a machine with few cores include the
// effects of its scheduler.
package etcdproc

import (
	"context"
	"errors"
	"time"

	"github.com/goverse/goverse/bench/internal/reexec"
	"github.com/goverse/goverse/embedetcd"
)

// serveArg, as the only argument, makes the binary an etcd server; see [Serve].
const serveArg = "serve-etcd"

const startTimeout = 30 * time.Second

// Serve runs etcd. It reports whether args, without the program's name, ask for that; if so, it serves until standard
// input closes and returns the error.
func Serve(args []string) (asked bool, err error) {
	if len(args) != 1 || args[0] != serveArg {
		return false, nil
	}
	return true, serve()
}

func serve() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := embedetcd.Start(ctx, embedetcd.Config{})
	if err != nil {
		return err
	}
	reexec.Ready(server.Endpoint())
	select {
	case <-reexec.UntilParentEnds().Done():
		return server.Close()
	case <-server.Done():
		return errors.Join(server.Err(), server.Close())
	}
}

// Process is a running etcd.
type Process struct {
	// Endpoint is the host:port at which it serves clients and metrics.
	Endpoint string

	*reexec.Process
}

// Start starts the process and returns once it serves. Stop ends it and removes its data.
func Start() (*Process, error) {
	p, err := reexec.Start(serveArg)
	if err != nil {
		return nil, err
	}
	return &Process{p.Said, p}, nil
}
