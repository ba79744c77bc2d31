package slogger_test

import (
	"log/slog"
	"os"

	"github.com/goverse/goverse/cluster/slogger"
)

// Goverse's lines go to the program's own log, as attributes.
func Example() {
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	logger := slogger.New(log) // for Config.Logger
	logger.Named("election").Info("this node leads", "token", 7)
	// Output: level=INFO msg="this node leads" logger=election token=7
}
