package dev

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// lineWriter emits its input line by line, each with a name in front. It is safe for concurrent use.
type lineWriter struct {
	name string
	emit func(line string)

	mu   sync.Mutex
	rest []byte
	last string
}

// longestLine limits the bytes kept of an unfinished line.
const longestLine = 64 << 10

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok && len(w.rest) < longestLine {
			return len(p), nil
		}
		w.pass(line)
		w.rest = rest
	}
}

// flush emits an unfinished last line, and returns the last line emitted.
func (w *lineWriter) flush() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.pass(w.rest)
		w.rest = nil
	}
	return w.last
}

func (w *lineWriter) pass(line []byte) {
	text := strings.TrimRight(string(line), "\r")
	if strings.TrimSpace(text) == "" {
		return
	}
	w.last = text
	w.emit("[" + w.name + "] " + text)
}

// toWriter returns a function that writes whole lines to out, one at a time.
func toWriter(out io.Writer) func(string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(out, line+"\n") // a failed write to the log does not end the cluster
	}
}

// kept holds the last lines of a log that matters only after a failure.
type kept struct {
	mu    sync.Mutex
	lines []string
}

const keptLines = 20

func (k *kept) add(line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, line)
	if len(k.lines) > keptLines {
		k.lines = k.lines[1:]
	}
}

// pass emits the lines and forgets them.
func (k *kept) pass(emit func(string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, line := range k.lines {
		emit(line)
	}
	k.lines = nil
}
