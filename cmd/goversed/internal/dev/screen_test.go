package dev

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScreenWithoutTerminalIsLinesOnly(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newScreen(&out, false)
	s.printLines("one", "two")
	s.showBlock([]string{"a table"})
	s.printLines("three")
	s.close()
	require.Equal(t, "one\ntwo\nthree\n", out.String())
}

func TestScreenRedrawsInPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	said := func() string { defer out.Reset(); return out.String() }
	s := newScreen(&out, true)
	require.Equal(t, "\x1b[?25l", said())
	s.showBlock([]string{"a", "b"})
	require.Equal(t, "\r\x1b[Ja\nb\n", said())
	s.showBlock([]string{"c"})
	require.Equal(t, "\r\x1b[2A\x1b[Jc\n", said(), "goes up as far as the old block was high")
	s.printLines("event")
	require.Equal(t, "\r\x1b[1A\x1b[Jevent\nc\n", said(), "the block stays below")
	s.close()
	require.Equal(t, "\r\x1b[1A\x1b[J\x1b[?25h", said())
	s.printLines("after")
	s.close()
	require.Equal(t, "after\n", said())
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

func TestScreenTellsOnceThatNobodyReads(t *testing.T) {
	t.Parallel()
	s := newScreen(brokenPipe{}, false)
	s.printLines("one")
	s.printLines("two")
	select {
	case <-s.broken:
	default:
		require.Fail(t, "not reported")
	}
}

func TestLineWriter(t *testing.T) {
	t.Parallel()
	var got []string
	w := &lineWriter{name: "n", emit: func(line string) { got = append(got, line) }}
	for _, part := range []string{"one\ntw", "o\r\n\n  \n", "three"} {
		n, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.Equal(t, []string{"[n] one", "[n] two"}, got, "whole lines only, no empty ones")
	require.Equal(t, "three", w.flush())
	require.Equal(t, "[n] three", got[2])
	require.Equal(t, "three", w.flush(), "still the last line")
	require.Len(t, got, 3, "flushed once")

	_, _ = w.Write(bytes.Repeat([]byte("x"), longestLine))
	require.Len(t, got, 4, "a line without an end does not pile up")
}

func TestKeptHoldsTheLastLines(t *testing.T) {
	t.Parallel()
	k := &logTail{}
	for i := range logTailLines + 2 {
		k.addLine(string(rune('a' + i)))
	}
	var got []string
	k.emitLines(func(line string) { got = append(got, line) })
	require.Len(t, got, logTailLines)
	require.Equal(t, "c", got[0])
	k.emitLines(func(string) { require.Fail(t, "passed twice") })
}
