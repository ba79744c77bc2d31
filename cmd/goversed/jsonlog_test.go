package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/logs/logqueue"
)

func TestJSONLogWritesTimesForPeople(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd := &cobra.Command{Use: "goversed"}
	cmd.SetErr(&out)
	log, err := (&nodeFlags{logLevel: "trace", logJSON: true}).newLogger(cmd)
	require.NoError(t, err)
	for _, l := range []hclog.Logger{log, log.Named("x"), log.ResetNamed("x")} {
		for _, say := range []func(string, ...any){l.Trace, l.Debug, l.Info, l.Warn, l.Error,
			func(msg string, args ...any) { l.Log(hclog.Info, msg, args...) },
			func(msg string, args ...any) { l.With(args...).Info(msg) }} {
			out.Reset()
			say("a wait", "took", 1500*time.Millisecond, "tries", 3)
			logqueue.Flush(t.Context(), log)
			var line map[string]any
			require.NoError(t, json.Unmarshal(out.Bytes(), &line))
			require.Equal(t, "1.5s", line["took"])
			require.Equal(t, 3.0, line["tries"])
			require.Equal(t, "a wait", line["@message"])
		}
	}
}
