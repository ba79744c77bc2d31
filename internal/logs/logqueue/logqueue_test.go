package logqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// writerFunc is a function used as the destination of a log.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func over(w writerFunc, json bool) hclog.Logger {
	return New(hclog.New(&hclog.LoggerOptions{Output: w, Level: hclog.Debug, DisableTime: true, JSONFormat: json}))
}

// stalled returns a writer that accepts nothing before release is called; read returns the accepted output.
func stalled() (w writerFunc, release func(), read func() string) {
	gate, took := make(chan struct{}), new(bytes.Buffer)
	return func(p []byte) (int, error) { <-gate; return took.Write(p) }, func() { close(gate) }, took.String
}

// Lines arrive in order, with name and arguments, even if the argument values change afterwards.
func TestLinesAreTakenAsTheyWereSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release, read := stalled()
		log := over(w, false)
		names, numbers := []string{"a", "b"}, []int{1, 2}
		text := "first"
		log.Named("x").With("shard", 7).Info("one", "names", names, "numbers", numbers, "err", (*changing)(&text),
			"took", time.Second, "format", hclog.Fmt("%d!", 5), "object", struct{ N int }{3})
		names[0], numbers[0], text = "changed", 99, "changed"
		log.Debug("two")
		log.Trace("not at this level")
		log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Warn}).Print("three")
		release()
		Flush(t.Context(), log)
		require.Equal(t, "[INFO]  x: one: shard=7 names=[\"a\", \"b\"] numbers=[1, 2] err=first took=1s format=\"5!\" "+
			"object={N:3}\n"+
			"[DEBUG] two\n[WARN]  three\n", read())
		require.Zero(t, StateOf(log))
	})
}

// changing is an error with a text that its owner changes.
type changing string

func (e *changing) Error() string { return string(*e) }

// Logged errors keep their identity.
func TestAnErrorStaysItself(t *testing.T) {
	got, size := captureArgs([]any{"error", fmt.Errorf("read: %w", context.Canceled)})
	require.ErrorIs(t, got[1].(error), context.Canceled)
	require.EqualError(t, got[1].(error), "read: context canceled")
	require.Greater(t, size, lineSize)
	require.Nil(t, captureValue(nil))
	require.Equal(t, "<nil>", captureValue(error((*nilError)(nil))).(error).Error())
}

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// A writer that accepts nothing costs its callers no time, and memory up to a bound. When it accepts lines
// again, the number of lost lines is reported in their place.
func TestAStalledWriterHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release, read := stalled()
		log := over(w, false)
		began := time.Now()
		for i := range 20_000 {
			log.Info("line", "i", i, "text", strings.Repeat("x", 100))
		}
		log.Named("other").Error("the last")
		require.Zero(t, time.Since(began), "nobody waits")
		<-time.After(3 * time.Second)
		now := StateOf(log)
		require.Equal(t, 3*time.Second, now.StalledFor)
		require.Greater(t, now.Lost, uint64(10_000))
		require.Greater(t, now.Waiting, 1000)
		began = time.Now()
		Flush(t.Context(), log)
		require.Equal(t, minFlushTime, time.Since(began), "it hangs already")
		release()
		Flush(t.Context(), log)
		log.Info("after")
		Flush(t.Context(), log)
		lines := strings.Split(strings.TrimSpace(read()), "\n")
		require.Len(t, lines, 1+now.Waiting+2, "the one that hung, those that waited, what was lost, and after")
		require.Equal(t, "[WARN]  log lines were lost: the log's output did not accept them: lines="+
			fmt.Sprint(now.Lost), lines[len(lines)-2])
		require.Contains(t, lines[1], "delayed=3")
		require.Equal(t, "[INFO]  after", lines[len(lines)-1])
		require.Equal(t, QueueState{Lost: now.Lost}, StateOf(log))
	})
}

// A stopping node waits for its last lines, but not beyond its own time, and for a second at most.
func TestFlushIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release, _ := stalled()
		log := over(w, true)
		log.Info("line")
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		Flush(ctx, log)
		require.Equal(t, 300*time.Millisecond, time.Since(began))
		Flush(t.Context(), log)
		require.Equal(t, flushTimeout, time.Since(began))
		release()
	})
}

// A logger that ends its goroutine loses only the line being written.
func TestALoggerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		log := over(func(p []byte) (int, error) {
			if writes.Add(1) == 1 {
				runtime.Goexit()
			}
			return 0, errors.New("not taken")
		}, true)
		log.Info("one")
		log.Info("two")
		Flush(t.Context(), log)
		require.EqualValues(t, 2, writes.Load())
	})
}

// A logger from New is not queued twice, and without a logger nothing is written.
func TestNewOfItsOwn(t *testing.T) {
	log := New(nil)
	require.Same(t, log, New(log))
	log.Error("nobody reads it")
	require.Zero(t, StateOf(log))
	require.Zero(t, StateOf(hclog.NewNullLogger()))
	Flush(t.Context(), hclog.NewNullLogger())
}

func BenchmarkLine(b *testing.B) {
	log := over(func(p []byte) (int, error) { return len(p), nil }, false)
	for b.Loop() {
		log.Info("a line", "token", 7, "address", "127.0.0.1:47001")
	}
}
