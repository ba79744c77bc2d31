package history

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childFile, in a process's environment, makes it a child that records there.
const childFile = "HISTORY_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		child(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// child is a node that leads, until it is killed.
func child(path string) {
	f, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	NewRecorder(f, "child").Add(Node{Name: "child", Leads: func() (bool, int64) { return true, 7 }})
	<-time.After(time.Minute) // should its parent die first
}
