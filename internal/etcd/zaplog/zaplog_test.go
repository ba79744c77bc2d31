package zaplog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// record returns an hclog logger, and a function that returns the entries written so far and forgets them.
func record(t *testing.T, level hclog.Level) (hclog.Logger, func() []map[string]any) {
	t.Helper()
	var buf bytes.Buffer
	l := hclog.New(&hclog.LoggerOptions{Output: &buf, Level: level, JSONFormat: true, DisableTime: true})
	return l, func() []map[string]any {
		var out []map[string]any
		for dec := json.NewDecoder(&buf); dec.More(); {
			var line map[string]any
			require.NoError(t, dec.Decode(&line))
			out = append(out, line)
		}
		return out
	}
}

func TestLevels(t *testing.T) {
	for zl, want := range map[zapcore.Level]string{
		zap.DebugLevel: "trace", zap.InfoLevel: "debug", zap.WarnLevel: "warn",
		zap.ErrorLevel: "error", zap.DPanicLevel: "error",
	} {
		l, taken := record(t, hclog.Trace)
		New(l).Log(zl, "hello")
		lines := taken()
		require.Len(t, lines, 1, "zap %s", zl)
		require.Equal(t, want, lines[0]["@level"], "zap %s", zl)
		require.Equal(t, "hello", lines[0]["@message"])
	}
}

func TestLevelIsAskedForEachEntry(t *testing.T) {
	l, taken := record(t, hclog.Info)
	z := New(l)
	z.Info("chatter of etcd")
	require.Empty(t, taken(), "etcd's info must stay below the user's info")
	require.False(t, z.Core().Enabled(zap.InfoLevel))
	z.Warn("seen")
	require.Len(t, taken(), 1)

	l.SetLevel(hclog.Debug)
	z.Info("now wanted")
	require.Len(t, taken(), 1)

	l.SetLevel(hclog.Off)
	z.Error("nothing is wanted")
	require.Empty(t, taken())
	require.False(t, z.Core().Enabled(zap.ErrorLevel))
}

// twoLines is an error with a %+v form of more than one line.
type twoLines struct{}

func (twoLines) Error() string { return "boom" }
func (e twoLines) Format(s fmt.State, _ rune) {
	if s.Flag('+') {
		fmt.Fprint(s, "boom\nstack")
		return
	}
	fmt.Fprint(s, e.Error())
}

func TestFieldsBecomePairs(t *testing.T) {
	l, taken := record(t, hclog.Trace)
	z := New(l).Named("raft").With(zap.Int("member", 7), zap.Namespace("wal"))
	z.Warn("slow",
		zap.Duration("took", time.Second), zap.Strings("peers", []string{"a", "b"}),
		zap.Error(twoLines{}), zap.NamedError("none", nil), zap.Skip())

	lines := taken()
	require.Len(t, lines, 1)
	require.Equal(t, map[string]any{
		"@level": "warn", "@message": "slow", "logger": "raft", "member": 7.0,
		"wal.took": float64(time.Second), "wal.peers": []any{"a", "b"}, "wal.error": "boom",
	}, lines[0])
}

func TestWithDoesNotShareFields(t *testing.T) {
	l, taken := record(t, hclog.Trace)
	base := New(l).With(zap.Int("a", 1), zap.Int("b", 2), zap.Int("c", 3))
	left, right := base.With(zap.String("side", "left")), base.With(zap.String("side", "right"))
	left.Warn("x")
	right.Warn("x")
	lines := taken()
	require.Equal(t, "left", lines[0]["side"])
	require.Equal(t, "right", lines[1]["side"])
}

func TestCallerIsAnOption(t *testing.T) {
	l, taken := record(t, hclog.Trace)
	New(l, zap.AddCaller()).Warn("x")
	require.Contains(t, taken()[0]["caller"], "zaplog_test.go")
}

func TestPanicsKeepZapsContract(t *testing.T) {
	l, taken := record(t, hclog.Trace)
	require.NotPanics(t, func() { New(l).DPanic("only in development") })
	require.Panics(t, func() { New(l).Panic("always") })
	require.Len(t, taken(), 2)
}

func TestNilLoggerDiscards(t *testing.T) {
	require.NotPanics(t, func() { New(nil).Error("x", zap.Error(errors.New("y"))) })
	require.False(t, New(nil).Core().Enabled(zap.ErrorLevel))
	require.NoError(t, New(nil).Sync())
}
