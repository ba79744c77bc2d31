package reaper

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/needed"
)

const (
	programEnv    = "GOVERSE_TEST_REAPER"
	withoutReaper = "without" // no reaper: shows the problem
	orphanCount   = 20
)

// TestMain runs the program with a reaper if the variable is set and this is process 1 of a namespace.
func TestMain(m *testing.M) {
	what, ok := os.LookupEnv(programEnv)
	if !ok {
		// Under nohup this process ignores the signal; the programs it starts must not inherit that.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		os.Exit(m.Run())
	}
	if !strings.HasPrefix(what, withoutReaper) {
		if status, done := Run(); done {
			os.Exit(status)
		}
	}
	looks := 2000 // children that have just ended are reaped a moment later
	if strings.HasPrefix(what, withoutReaper) {
		looks = 20
	}
	runProgram(strings.TrimPrefix(what, withoutReaper), looks)
}

// runProgram creates orphans beside commands that it waits for. After the given number of looks it prints how many
// zombies are left, and then acts on what.
func runProgram(what string, looks int) {
	for range orphanCount {
		if err := exec.Command("sh", "-c", "sleep 0.02 & sleep 0.02 &").Run(); err != nil {
			fmt.Println("a command of the program's was collected by another: ", err)
		}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	alive, zombies := 0, 0
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if alive, zombies = countChildren(); alive == 0 {
			break
		}
	}
	for ; zombies > 0 && looks > 0; looks-- {
		<-time.After(10 * time.Millisecond)
		_, zombies = countChildren()
	}
	fmt.Println("zombies:", zombies)
	switch what {
	case "exit":
		os.Exit(7)
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	fmt.Println("got:", <-signals)
}

// countChildren counts the children of process 1, or of this process, without the program.
func countChildren() (alive, zombies int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		switch {
		case pid == 1 || pid == os.Getpid():
		case fields[0] == "Z":
			zombies++
		default:
			alive++
		}
	}
	return alive, zombies
}

// startInNamespace runs the program as process 1 of a namespace of its own. It returns the program's output and its
// process id outside.
func startInNamespace(t *testing.T, what string) (cmd *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	unshare, err := exec.LookPath("unshare")
	if err == nil {
		err = exec.Command(unshare, "--pid", "--fork", "--mount-proc", "true").Run()
	}
	if err != nil {
		needed.Missing(t, "pidns", "no namespace of process ids can be made here: be root, with unshare of util-linux: "+
			err.Error())
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.Command(unshare, "--pid", "--fork", "--kill-child", "--mount-proc", self)
	cmd.Env = append(os.Environ(), programEnv+"="+what)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended
	return cmd, bufio.NewScanner(out)
}

func readLine(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	require.True(t, lines.Scan(), "the program ended")
	return lines.Text()
}

func TestZombiesAreCollected(t *testing.T) {
	cmd, lines := startInNamespace(t, "exit")
	require.Equal(t, "zombies: 0", readLine(t, lines))
	require.False(t, lines.Scan())
	require.Error(t, cmd.Wait())
	require.Equal(t, 7, cmd.ProcessState.ExitCode())
}

// Without a reaper the zombies stay.
func TestZombiesStayWithoutAReaper(t *testing.T) {
	cmd, lines := startInNamespace(t, withoutReaper+"exit")
	require.Equal(t, fmt.Sprintf("zombies: %d", 2*orphanCount), readLine(t, lines))
	require.Error(t, cmd.Wait())
}

func TestTheProgramsSignalIsTheStatus(t *testing.T) {
	cmd, lines := startInNamespace(t, "die")
	readLine(t, lines)
	require.Error(t, cmd.Wait())
	require.Equal(t, 128+int(syscall.SIGKILL), cmd.ProcessState.ExitCode())
}

func TestSignalsArePassedOn(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		cmd, lines := startInNamespace(t, "wait")
		require.Equal(t, "zombies: 0", readLine(t, lines))
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		require.NoError(t, err)
		reaper, err := strconv.Atoi(strings.Fields(string(children))[0]) // process 1 of the namespace
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(reaper, s))
		require.Equal(t, "got: "+s.String(), readLine(t, lines))
		require.NoError(t, cmd.Wait())
	}
}
