package etcdtest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// child is the process that runs the etcds of this test process.
type child struct {
	address string
	stdin   *os.File // the process ends when this is closed, which the end of this process does
	cmd     *exec.Cmd
}

// startChild starts the process at the first call, and returns the same one from then on.
var startChild = sync.OnceValues(func() (*child, error) {
	program, err := builtServer()
	if err != nil {
		return nil, fmt.Errorf("build the etcd of the tests: %w", err)
	}
	stdin, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	answers, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer answers.Close()
	c := &child{stdin: ours, cmd: exec.Command(program)}
	// Files, so that no goroutine copies. go test waits for the end of the process, which shares its standard error.
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, os.Stderr
	err = c.cmd.Start()
	_ = stdout.Close()
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	line, err := bufio.NewReader(answers).ReadString('\n')
	if err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("%s did not start: %w", program, errors.Join(err, c.cmd.Wait()))
	}
	c.address = strings.TrimSpace(line)
	return c, nil
})
