package host

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/test/probepb"
)

// inspectObject calls what may be called at any time, and returns "free" if the calls return.
func inspectObject(o *objects.Object) string {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		_, _ = o.Valid(), o.Context()
	}()
	select {
	case <-returned:
		return "free"
	case <-time.After(2 * time.Second):
		return "blocked"
	}
}

// inspectingError inspects the object that could not be activated whenever it is read.
type inspectingError struct{ o *objects.Object }

func (e inspectingError) Error() string { return inspectObject(e.o) }

// inspectingStatus is the same error as a status.
type inspectingStatus struct{ inspectingError }

func (e inspectingStatus) GRPCStatus() *status.Status { return status.New(codes.Aborted, e.Error()) }

// The error of a factory is code of the user, which may inspect the object.
func TestAFactorysErrorInspectsItsObject(t *testing.T) {
	for name, wrap := range map[string]func(o *objects.Object) error{
		"plain":   func(o *objects.Object) error { return inspectingError{o} },
		"wrapped": func(o *objects.Object) error { return fmt.Errorf("no: %w", inspectingError{o}) },
		"status":  func(o *objects.Object) error { return inspectingStatus{inspectingError{o}} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			s.world.OnActivate = func(_ context.Context, o *objects.Object) error { return wrap(o) }
			_, err := s.client("a").Add(s.ctx(), &probepb.AddRequest{})
			require.Equal(t, objects.ReasonActivation, objects.ReasonOf(err))
			require.ErrorContains(t, err, "free")
		})
	}
}

// inspectingWriter inspects an object for each line of the log.
type inspectingWriter struct {
	o     atomic.Pointer[objects.Object] // set before the first line
	lines chan string                    // what was seen
}

func (w *inspectingWriter) Write(line []byte) (int, error) {
	w.lines <- inspectObject(w.o.Load())
	return len(line), nil
}

// No line about an activation is logged under the lock of the object's shard.
func TestActivationsAreLoggedWithoutTheLock(t *testing.T) {
	w := &inspectingWriter{lines: make(chan string, 10)}
	s := newSite(t, func(c *Config) {
		c.ActivationTimeout, c.Logger = 20*time.Millisecond, hclog.New(&hclog.LoggerOptions{Output: w})
	})
	release := make(chan struct{})
	s.world.OnActivate = func(_ context.Context, o *objects.Object) error {
		w.o.Store(o)
		<-release
		return nil
	}
	_, err := s.client("a").Add(s.ctx(), &probepb.AddRequest{})
	require.Equal(t, objects.ReasonActivation, objects.ReasonOf(err))
	require.Equal(t, "free", <-w.lines, "it has not returned in time")
	close(release)
	require.Equal(t, "free", <-w.lines, "it was too late")
	s.eventually(func() bool { return s.host.evictor.activations.Load() == 0 })
}
