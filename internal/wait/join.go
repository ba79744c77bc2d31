package wait

import "time"

// JoinLimit limits a join of goroutines that may ignore that their contexts have ended, or hang in a file system.
const JoinLimit = time.Second

// Join blocks until done is closed, but at most for limit. It reports whether done is closed.
func Join(done <-chan struct{}, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// JoinFunc runs f in a goroutine and blocks until it has returned, but at most for limit. It reports whether f has
// returned.
func JoinFunc(f func(), limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return Join(done, limit)
}
