package wait

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSignalsArriveAsOne(t *testing.T) {
	s := NewSignal()
	require.Empty(t, s)
	s.Send()
	s.Send()
	<-s
	require.Empty(t, s)
	s.Send()
	<-s

	var none Signal
	none.Send()
	require.Empty(t, none)
}
