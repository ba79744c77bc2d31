package txn

import (
	"testing"

	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
