package state

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSilenceAccusationRecord(t *testing.T) {
	record := SilenceAccusationRecord{Incarnation: 7, AccuserIncarnation: 5, SilentMS: 1250}
	require.JSONEq(t, `{"format":1,"incarnation":7,"accuser_incarnation":5,"silent_ms":1250}`, record.Encode())
}
