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

	mu          sync.Mutex
	partialLine []byte
	lastLine    string
}

// longestLine limits the bytes kept of an unfinished line.
const longestLine = 64 << 10

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partialLine = append(w.partialLine, p...)
	for {
		line, rest, ok := bytes.Cut(w.partialLine, []byte("\n"))
		if !ok && len(w.partialLine) < longestLine {
			return len(p), nil
		}
		w.emitLine(line)
		w.partialLine = rest
	}
}

// flush emits an unfinished last line, and returns the last line emitted.
func (w *lineWriter) flush() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.partialLine) > 0 {
		w.emitLine(w.partialLine)
		w.partialLine = nil
	}
	return w.lastLine
}

func (w *lineWriter) emitLine(line []byte) {
	text := strings.TrimRight(string(line), "\r")
	if strings.TrimSpace(text) == "" {
		return
	}
	w.lastLine = text
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

// logTail holds the last lines of a log that matters only after a failure.
type logTail struct {
	mu    sync.Mutex
	lines []string
}

const logTailLines = 20

func (k *logTail) addLine(line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, line)
	if len(k.lines) > logTailLines {
		k.lines = k.lines[1:]
	}
}

// emitLines emits the lines and forgets them.
func (k *logTail) emitLines(emit func(string)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, line := range k.lines {
		emit(line)
	}
	k.lines = nil
}
