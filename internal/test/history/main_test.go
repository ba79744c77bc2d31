package history

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/test/leaktest"
)

// childFile is the environment variable that turns a process into a child that records into the named file.
const childFile = "HISTORY_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		runChild(path)
		return
	}
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// runChild is a node that leads until it is killed.
func runChild(path string) {
	f, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	NewRecorder(f, "child").Add(Node{Name: "child", Leads: func() (bool, int64) { return true, 7 }})
	<-time.After(time.Minute) // in case its parent dies first
}
