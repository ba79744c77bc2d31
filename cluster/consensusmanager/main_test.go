package consensusmanager

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}
