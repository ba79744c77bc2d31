package history

import (
	"bytes"
	"testing"
)

// Record records in a test's process and judges the history when the test ends. It fails the test with a report
// if a promise was broken. Call it after clustertest.New, so that it ends before the cluster does, and add the
// nodes to it.
func Record(t testing.TB, limits Limits) *Recorder {
	t.Helper()
	var text bytes.Buffer // the recorder writes under its lock; Stop locks it too
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
