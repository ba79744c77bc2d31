package elector

import "sync"

// termSignal wakes the callers of Lead when a term begins and when Run returns. It is safe for concurrent use.
type termSignal struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next change; nil if no caller waits
	ended   bool          // Run has returned and was not called again
}

// observe returns a channel that is closed at the next change. ended reports whether Run has returned.
func (s *termSignal) observe() (changed <-chan struct{}, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed, s.ended
}

// notify reports that a term has begun, or that Run has begun or returned.
func (s *termSignal) notify(ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = ended
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
