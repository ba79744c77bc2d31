package etcdsession

import "time"

// RoundTrip is how long the last read took that etcd answered in a renewal round, 0 before the
// first, and the member of etcd that answered it. It is one linearizable request: the way to etcd's leader and back.
func (s *Session) RoundTrip() (member uint64, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readBy, s.lastRead
}
