//go:build unix

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/port"
)

// Host is the address that all servers listen on.
const Host = "127.0.0.1"

const (
	maxTries = 20

	startTimeout  = time.Minute
	retryInterval = 5 * time.Millisecond
)

// Draw calls start with ports that were free a moment ago, until it succeeds, or fails although the port is
// free.
func Draw(start func(port string) error) (err error) {
	for range maxTries {
		address, none := port.Servers.Draw(Host)
		if none != nil {
			return fmt.Errorf("found no free port of %s: %w", Host, errors.Join(none, err))
		}
		_, number, _ := net.SplitHostPort(address) // address is valid
		// Another program may have taken the port meanwhile.
		if err = start(number); err == nil || port.Probe(address) == nil {
			return err
		}
	}
	return fmt.Errorf("every port of %d was taken before the server had it: %w", maxTries, err)
}

// Start starts a server's program and calls answers repeatedly until it returns no error. A server that has not
// answered after a minute, or when ctx ends, is killed. If the program ends, Start fails, even if another server
// answers. The error contains the program's output.
func Start(ctx context.Context, cmd *exec.Cmd, answers func(ctx context.Context) error) (*fault.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p, err := fault.StartProcess(cmd)
	if err != nil {
		return nil, err
	}
	again := time.NewTicker(retryInterval)
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
