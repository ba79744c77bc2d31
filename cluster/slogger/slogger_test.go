package slogger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/slogger"
)

// to returns a logger that writes JSON from that level on, and a function that returns the lines written.
func to(level slog.Level) (hclog.Logger, func(t *testing.T) []map[string]any) {
	var out bytes.Buffer
	l := slogger.New(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level, AddSource: true})))
	return l, func(t *testing.T) (lines []map[string]any) {
		for line := range strings.Lines(out.String()) {
			var m map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &m))
			lines = append(lines, m)
		}
		out.Reset()
		return lines
	}
}

func TestLines(t *testing.T) {
	l, wrote := to(slog.LevelInfo)
	l.Named("shards").With("node", "a:1").Named("plan").Warn("moved", "shards", 3, "error", errors.New("oops"), "lease",
		hclog.Fmt("%x", 255), "n", hclog.Hex(10))
	got := wrote(t)
	require.Len(t, got, 1)
	delete(got[0], "time")
	require.Equal(t, map[string]any{"level": "WARN", "msg": "moved", "logger": "shards.plan", "node": "a:1",
		"shards": 3.0, "error": "oops",
		"lease": "ff", "n": "0xa"}, got[0])
	require.Equal(t, []any{"node", "a:1"}, l.With("node", "a:1").ImpliedArgs())
	require.Empty(t, l.Name())
	require.Equal(t, "b", l.Named("a").ResetNamed("b").Name())
}

func TestLevels(t *testing.T) {
	l, wrote := to(slog.LevelDebug)
	l.Trace("no")
	l.Debug("1")
	l.Info("2")
	l.Warn("3")
	l.Error("4")
	l.Log(hclog.Error, "5")
	l.Log(hclog.Off, "no")
	l.SetLevel(hclog.Off)
	require.Len(t, wrote(t), 5)
	require.False(t, l.IsTrace())
	require.True(t, l.IsDebug() && l.IsInfo() && l.IsWarn() && l.IsError())
	require.Equal(t, hclog.Debug, l.GetLevel())
	none, _ := to(slog.LevelError + 1)
	require.Equal(t, hclog.Off, none.GetLevel())
	all, _ := to(slogger.LevelTrace)
	require.Equal(t, hclog.Trace, all.GetLevel())
	require.NotNil(t, slogger.New(nil))
}

func TestStandardLog(t *testing.T) {
	l, wrote := to(slog.LevelInfo)
	l.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Warn}).Println("from log")
	l.StandardLogger(nil).Println("from log")
	got := wrote(t)
	require.Len(t, got, 2)
	require.Equal(t, "WARN", got[0]["level"])
	require.Equal(t, "from log", got[1]["msg"])
}
