package history

import (
	"bytes"
	"testing"
)

// Record records in the process of a test and judges it at the test's end: the test
// fails with the report if a promise was broken. Call it after clustertest.New, so
// that it ends before the cluster does, and add the nodes to it.
func Record(t testing.TB, limits Limits) *Recorder {
	t.Helper()
	var text bytes.Buffer // the recorder writes under its lock, and Stop takes it
	rec := NewRecorder(&text, t.Name())
	t.Cleanup(func() {
		if err := rec.Stop(); err != nil {
			t.Errorf("record the history: %v", err)
		}
		h, err := Read(&text)
		if err != nil {
			t.Errorf("read the history: %v", err)
		}
		if v := Check(h, limits); !v.OK() {
			t.Errorf("the history breaks promises\n%v", v)
		} else {
			t.Logf("%v", v)
		}
	})
	return rec
}
