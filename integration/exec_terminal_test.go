//go:build linux

package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goverse/goverse/integration/internal/procs"
)

// terminal is a pseudo-terminal with a shell script on it.
type terminal struct {
	*testing.T
	keyboard *os.File
	mu       sync.Mutex
	screen   strings.Builder
}

func newTerminal(t *testing.T, script string) *terminal {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	raw, err := keyboard.SyscallConn()
	require.NoError(t, err)
	var number int
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		require.NoError(t, err)
	}))
	far, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, far.Close())
	x := &terminal{T: t, keyboard: keyboard}
	var wg sync.WaitGroup
	wg.Go(func() {
		for buf := make([]byte, 1024); ; {
			n, err := keyboard.Read(buf)
			if err != nil {
				return // the terminal has no processes any more
			}
			x.mu.Lock()
			x.screen.Write(buf[:n])
			x.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // in case it has not ended
		_ = cmd.Wait()
		_ = keyboard.Close() // hangs the terminal up
		wg.Wait()
		if t.Failed() {
			t.Log(x.text())
		}
	})
	return x
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.String()
}

func (x *terminal) await(text string) {
	x.Helper()
	procs.Await(x.T, patience, "the terminal shows "+text, func() error {
		if !strings.Contains(x.text(), text) {
			return errors.New("it does not")
		}
		return nil
	})
}

func (x *terminal) press(keys string) {
	x.Helper()
	_, err := x.keyboard.WriteString(keys)
	require.NoError(x, err)
}

const ctrlC, ctrlZ = "\x03", "\x1a"

// On a terminal the command can read. Ctrl-C reaches both the command and the script around goversed. Ctrl-Z
// does not leave the lock with a stopped command.
func TestLockAtATerminal(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	goversed := fmt.Sprintf("%s lock it --etcd %s", kit.GoversedPath(t), etcd.Endpoint)

	x := newTerminal(t, goversed+` -- sh -c 'echo ready; read a; echo "got <$a>"; read b; echo "got <$b>"; exit 4'; `+
		`echo "code <$?>"; read c; echo "then <$c>"`)
	x.await("ready")
	x.press("one\n")
	x.await("got <one>")
	x.press(ctrlZ)
	x.await("^Z")
	x.press("two\n")
	x.await("got <two>")
	x.await("code <4>")
	x.press("three\n")
	x.await("then <three>") // the script has the terminal again

	x = newTerminal(t, `trap 'echo "outer <int>"' INT; `+strings.ReplaceAll("GOVERSED -- sh -c 'echo ready; exec sleep "+
		"60'; echo \"code <$?>\"", "GOVERSED", goversed))
	x.await("ready")
	x.press(ctrlC)
	x.await("code <130>")
	x.await("outer <int>")

	// In a pipe, goversed leaves the terminal to the others; Ctrl-C reaches the command through goversed.
	x = newTerminal(t, goversed+` -- sh -c 'trap "echo command int; exit 5" INT; echo ready; `+
		`while :; do sleep 0.05; done' | (trap '' INT; cat)`)
	x.await("ready")
	x.press(ctrlC)
	x.await("command int")

	// While goversed waits, there is no command.
	holder := newTerminal(t, goversed+` -- sh -c 'echo held; exec sleep 60'`)
	holder.await("held")
	x = newTerminal(t, `trap : INT; `+goversed+` --log-level debug -- true; echo "code <$?>"`)
	procs.Await(t, patience, "it waits", func() error {
		keys := procs.Keys(t, etcd.Client(t, "", ""), "/goverse/work/locks/")
		return equal("places", len(keys)-len(procs.Keys(t, etcd.Client(t, "", ""), "/goverse/work/locks/batches/")), 2)
	})
	x.press(ctrlC)
	x.await("code <130>")
	holder.press(ctrlC)
}
