package oneline

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	require.Equal(t, "it failed", Of(errors.New("it failed")))
	require.Equal(t, "one; two", Of(errors.Join(errors.New("one"), errors.New("two"))))
	require.Equal(t, "hosts: a: refused b: silent", Of(errors.New("hosts:\n\ta: refused\n\tb: silent\n")))
}
