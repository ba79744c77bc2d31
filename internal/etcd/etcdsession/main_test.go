package etcdsession

import (
	"testing"

	"github.com/goverse/goverse/internal/test/leaktest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}
