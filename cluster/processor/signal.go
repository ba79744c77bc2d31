package processor

import "sync"

// Signal is what a source that is notified of new events can embed to be a [Changer]. The zero value
// works; all methods are safe for concurrent use and do not block.
type Signal struct {
	mu sync.Mutex
	c  chan struct{}
}

// Changed implements [Changer].
func (s *Signal) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}

// Notify says that there may be more to read.
func (s *Signal) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}
