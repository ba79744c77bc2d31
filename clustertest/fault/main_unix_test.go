//go:build unix

package fault

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const (
	// childEnv turns a copy of the test binary into one of the children below.
	childEnv = "GOVERSE_TEST_FAULT_CHILD"
	// exitCode is used for nothing but the tests of Exit.
	exitCode = 42
	// threads is the number of counting threads.
	threads = 4
)

func TestMain(m *testing.M) {
	if role, asked := os.LookupEnv(childEnv); asked {
		beChild(role)
		return
	}
	goleak.VerifyTestMain(m)
}

// start starts one of the children, which ends with the test.
func start(t *testing.T, role string) *Process {
	t.Helper()
	noLeaks(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+role, fmt.Sprint("GOMAXPROCS=", threads))
	p, err := StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func beChild(role string) {
	role, argument, _ := strings.Cut(role, " ")
	switch role {
	case "exit":
		fmt.Fprintln(os.Stdout, "out")
		fmt.Fprintln(os.Stderr, "err")
		os.Exit(exitCode)
	case "echo":
		echo()
	case "count":
		count(argument)
	}
}

// echo prints its address and sends everything back.
func echo() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	for {
		conn, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() { _, _ = io.Copy(conn, conn) }()
	}
}

// count counts in a file, in several threads.
func count(path string) {
	counters, err := shared(path)
	if err != nil {
		panic(err)
	}
	for i := range counters {
		go func() {
			for {
				atomic.AddInt64(&counters[i], 1)
			}
		}()
	}
	select {}
}

// shared maps the counters in a file into shared memory. They stay mapped until the process ends.
func shared(path string) (*[threads]int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping does not need it any more
	memory, err := unix.Mmap(int(f.Fd()), 0, threads*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*[threads]int64)(unsafe.Pointer(&memory[0])), nil
}
