//go:build unix

package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"time"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/port"
)

// Host is where all servers listen.
const Host = "127.0.0.1"

const (
	// Ports are drawn from below the range that the usual systems give to outgoing
	// connections, so that a server finds its port free when it is restarted.
	firstPort, lastPort = 20000, 28000
	drawings            = 20

	startTimeout = 20 * time.Second
	interval     = 5 * time.Millisecond
)

// Draw calls start with ports that were free a moment ago, until it succeeds, or fails although
// the port is free.
func Draw(start func(port string) error) (err error) {
	for range drawings {
		number := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort))
		address := net.JoinHostPort(Host, number)
		if port.Probe(address) != nil {
			continue
		}
		// Another program may be faster.
		if err = start(number); err == nil || port.Probe(address) == nil {
			return err
		}
	}
	return errors.Join(fmt.Errorf("found no free port of %s from %d to %d", Host, firstPort, lastPort), err)
}

// Start starts a server's program and returns when answers does without an error; it is called
// again and again. A server that has not answered after 20 s, or when ctx ends, is killed, and one
// that ends has failed, whoever answers; the error reports what it said.
func Start(ctx context.Context, cmd *exec.Cmd, answers func(ctx context.Context) error) (*fault.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p, err := fault.StartProcess(cmd)
	if err != nil {
		return nil, err
	}
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		err := answers(ctx)
		if err == nil && p.Running() {
			return p, nil
		}
		select {
		case <-p.Done():
			return nil, fmt.Errorf("%s ended (%s):\n%s", cmd.Path, p.State(), p.Output())
		case <-ctx.Done():
			err = errors.Join(context.Cause(ctx), err, p.Close())
			return nil, fmt.Errorf("%s does not answer: %w\n%s", cmd.Path, err, p.Output())
		case <-again.C:
		}
	}
}
