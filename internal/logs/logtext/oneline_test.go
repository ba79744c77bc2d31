package logtext

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneLine(t *testing.T) {
	require.Equal(t, "it failed", OneLine(errors.New("it failed")))
	require.Equal(t, "one; two", OneLine(errors.Join(errors.New("one"), errors.New("two"))))
	require.Equal(t, "hosts: a: refused b: silent", OneLine(errors.New("hosts:\n\ta: refused\n\tb: silent\n")))
}

func TestBound(t *testing.T) {
	require.Equal(t, "short", Bound("short", 5))
	require.Equal(t, "ä", Bound("äöü", 3), "no half a character")
	require.Equal(t, "ab", Bound("a\x00\xffb", 10))
	require.Empty(t, Bound("x", 0))
}
