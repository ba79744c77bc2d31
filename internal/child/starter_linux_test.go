package child

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const parentEnv = "GOVERSE_TEST_CHILD_PARENT"

// TestMain, run again with the environment variable set, is a parent that starts a child, prints its process
// id, and waits to be killed.
func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) == "" {
		os.Exit(m.Run())
	}
	s := NewStarter()
	cmd := exec.Command("sleep", "60")
	if err := s.Start(cmd); err != nil {
		panic(err)
	}
	os.Stdout.WriteString(strconv.Itoa(cmd.Process.Pid) + "\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), parentEnv+"=1")
	stdin, err := parent.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(line[:len(line)-1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0), "the child lives")
	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait(), "killed")
	require.Eventually(t, func() bool { return !lives(pid) }, 5*time.Second, time.Millisecond)
}

// lives reports whether a process runs. It returns false also for a zombie that was not reaped yet.
func lives(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	for i := len(stat) - 1; i >= 0; i-- {
		if stat[i] == ')' {
			return stat[i+2] != 'Z'
		}
	}
	return true
}
