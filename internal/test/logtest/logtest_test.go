package logtest

import (
	"fmt"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/logs/logqueue"
)

// TestWhatWasSaidIsRead checks that a logged line is read at once, although another goroutine writes it.
func TestWhatWasSaidIsRead(t *testing.T) {
	var b Buffer
	plain, named := logqueue.New(b.Logger()), logqueue.New(b.LoggerWith(hclog.LoggerOptions{Name: "x"})).With("a", 1)
	for i := range 500 {
		plain.Info("line", "i", i)
		named.Info("line", "i", i)
		require.Contains(t, b.String(), fmt.Sprintf("[INFO]  line: i=%d\n", i))
		require.Contains(t, b.String(), fmt.Sprintf("[INFO]  x: line: a=1 i=%d\n", i))
	}
}
