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
