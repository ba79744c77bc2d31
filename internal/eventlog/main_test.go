package eventlog

import (
	"testing"

	"github.com/goverse/goverse/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
