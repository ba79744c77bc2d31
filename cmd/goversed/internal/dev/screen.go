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

// screen is where everything is said. In a terminal, lines scroll away above a
// block that is redrawn in place; elsewhere there are only lines. Its methods are
// safe for concurrent use.
type screen struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	block    []string // as it stands on the terminal now
	broken   chan struct{}
	failed   bool
}

func newScreen(out io.Writer, terminal bool) *screen {
	s := &screen{out: out, terminal: terminal, broken: make(chan struct{})}
	if terminal {
		s.write(hideCursor)
	}
	return s
}

// say prints lines that stay.
func (s *screen) say(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	b.WriteString(s.erase())
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	b.WriteString(s.draw())
	s.write(b.String())
}

// show replaces the block; without a terminal it does nothing.
func (s *screen) show(block []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal {
		return
	}
	erase := s.erase()
	s.block = block
	s.write(erase + s.draw())
}

// close takes the block away and gives the cursor back.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		s.write(s.erase() + showCursor)
		s.block, s.terminal = nil, false
	}
}

// erase goes to where the block begins; the cursor stands below its last line.
func (s *screen) erase() string {
	switch {
	case !s.terminal:
		return ""
	case len(s.block) == 0:
		return "\r" + clearBelow
	}
	return fmt.Sprintf("\r\x1b[%dA%s", len(s.block), clearBelow)
}

func (s *screen) draw() string {
	if len(s.block) == 0 {
		return ""
	}
	return strings.Join(s.block, "\n") + "\n"
}

// write goes out in one piece, so that a terminal does not flicker.
func (s *screen) write(text string) {
	if s.failed || text == "" {
		return
	}
	if _, err := io.WriteString(s.out, text); err != nil {
		s.failed = true
		close(s.broken)
	}
}

func (s *screen) sayLine(line string) { s.say(line) }
