//go:build unix

package mtls_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/node/mtls"
)

// A file that cannot be read, on a hanging file system, does not prevent Close from returning.
func TestCloseWhileAFileDoesNotCome(t *testing.T) {
	t.Parallel()
	f, cert := files(t, certtest.NewAuthority(t))
	certs, err := mtls.New(mtls.Config{CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA, Interval: time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, os.Remove(f.Cert))
	require.NoError(t, syscall.Mkfifo(f.Cert, 0o600))
	var silent *os.File
	require.Eventually(t, func() bool { // opening it for writing succeeds once there is a reader
		silent, err = os.OpenFile(f.Cert, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	}, 10*time.Second, time.Millisecond)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		certs.Close()
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("Close waits for the file")
	}
	require.Equal(t, cert.Serial, certs.Leaf().SerialNumber, "they are in use still")
	require.NoError(t, silent.Close())
	<-closed
	certs.Close()
}
