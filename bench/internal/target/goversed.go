package target

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/goverse/goverse/internal/child"
)

// goversed is the daemon, built from the sources next to this module.
type goversed struct {
	dir, path string
	starter   *child.Starter // ends the daemons if this process dies
}

func buildGoversed(ctx context.Context) (*goversed, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/goverse/goverse").Output()
	if err != nil {
		return nil, fmt.Errorf("find Goverse's sources; run this inside bench/: %w", err)
	}
	dir, err := os.MkdirTemp("", "goverse-bench-")
	if err != nil {
		return nil, err
	}
	g := &goversed{dir: dir, path: filepath.Join(dir, "goversed"), starter: child.NewStarter()}
	build := exec.CommandContext(ctx, "go", "build", "-o", g.path, "./cmd/goversed")
	build.Dir = string(bytes.TrimSpace(out))
	if said, err := build.CombinedOutput(); err != nil {
		g.remove()
		return nil, fmt.Errorf("build goversed: %w: %s", err, said)
	}
	return g, nil
}

// remove removes the binary. All daemons must have ended.
func (g *goversed) remove() {
	g.starter.Close()
	_ = os.RemoveAll(g.dir)
}

// daemon is one running goversed.
type daemon struct {
	cmd    *exec.Cmd
	wg     sync.WaitGroup
	ended  chan struct{} // closed at the end of its output
	errors bytes.Buffer
}

// run starts goversed and calls say with every line of its output.
func (g *goversed) run(say func(line string), args ...string) (*daemon, error) {
	d := &daemon{cmd: exec.Command(g.path, args...), ended: make(chan struct{})}
	d.cmd.Dir = g.dir
	d.cmd.Stderr = &d.errors
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// The process group lets kill end its child processes, too.
	if err := g.starter.Start(d.cmd); err != nil {
		return nil, fmt.Errorf("start goversed: %w", err)
	}
	d.wg.Go(func() {
		defer close(d.ended)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			say(lines.Text())
		}
	})
	return d, nil
}

// wait waits for goversed to end by itself; when ctx ends first, wait kills it.
func (d *daemon) wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, d.kill)
	defer stop()
	d.wg.Wait()
	if err := d.cmd.Wait(); err != nil {
		return errors.Join(fmt.Errorf("goversed %s: %w: %s", strings.Join(d.cmd.Args[1:], " "), err, d.errors.String()),
			ctx.Err())
	}
	return nil
}

// stop asks goversed to stop gracefully and waits.
func (d *daemon) stop(ctx context.Context) error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // if it has ended already, wait returns the reason
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return d.wait(ctx)
}

func (d *daemon) kill() { _ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL) }

// memory returns a field of the process's status file, such as VmRSS or RssAnon, in MiB.
func (d *daemon) memory(field string) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("the kernel does not tell %s", field)
}
