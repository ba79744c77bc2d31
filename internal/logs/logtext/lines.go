// Package logtext turns text into log lines: each error into one line, and the output of foreign loggers into
// lines of an hclog.Logger.
//
// Not promised: a line that reaches the writer in two pieces becomes two lines.
package logtext

import (
	"io"
	"log"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// StandardLogger returns a logger of the standard library that logs to l.
func StandardLogger(l hclog.Logger, opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(LineWriter(l, opts), "", 0)
}

// LineWriter returns a writer that logs each line written to it to l, at the level that opts force, or otherwise at
// hclog.Info. It infers no levels from the text. It is safe for concurrent use if l is.
func LineWriter(l hclog.Logger, opts *hclog.StandardLoggerOptions) io.Writer {
	level := hclog.Info
	if opts != nil && opts.ForceLevel != hclog.NoLevel {
		level = opts.ForceLevel
	}
	return lineWriter{l, level}
}

type lineWriter struct {
	to    hclog.Logger
	level hclog.Level
}

// Write implements io.Writer.
func (w lineWriter) Write(p []byte) (int, error) {
	for text := range strings.Lines(string(p)) {
		w.to.Log(w.level, strings.TrimRight(text, "\r\n"))
	}
	return len(p), nil
}
