package dev

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearBelow = "\x1b[J"
)

// screen prints all output. In a terminal, lines scroll away above a block that is redrawn in place; otherwise
// there are only lines. Its methods are safe for concurrent use.
type screen struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	block    []string // as drawn on the terminal now
	broken   chan struct{}
	failed   bool
}

func newScreen(out io.Writer, terminal bool) *screen {
	s := &screen{out: out, terminal: terminal, broken: make(chan struct{})}
	if terminal {
		s.writeText(hideCursor)
	}
	return s
}

// printLines prints lines above the block.
func (s *screen) printLines(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	b.WriteString(s.eraseSequence())
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	b.WriteString(s.drawSequence())
	s.writeText(b.String())
}

// showBlock replaces the block. Without a terminal it does nothing.
func (s *screen) showBlock(block []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal {
		return
	}
	erase := s.eraseSequence()
	s.block = block
	s.writeText(erase + s.drawSequence())
}

// close removes the block and shows the cursor again.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		s.writeText(s.eraseSequence() + showCursor)
		s.block, s.terminal = nil, false
	}
}

// eraseSequence returns the text that clears the block. The cursor must be below the block's last line.
func (s *screen) eraseSequence() string {
	switch {
	case !s.terminal:
		return ""
	case len(s.block) == 0:
		return "\r" + clearBelow
	}
	return fmt.Sprintf("\r\x1b[%dA%s", len(s.block), clearBelow)
}

func (s *screen) drawSequence() string {
	if len(s.block) == 0 {
		return ""
	}
	return strings.Join(s.block, "\n") + "\n"
}

// writeText writes text in one piece, so that the terminal does not flicker.
func (s *screen) writeText(text string) {
	if s.failed || text == "" {
		return
	}
	if _, err := io.WriteString(s.out, text); err != nil {
		s.failed = true
		close(s.broken)
	}
}

func (s *screen) printLine(line string) { s.printLines(line) }
