package etcdsession

import "time"

// RoundTrip returns the duration of the last read that etcd answered in a renewal round, 0 before the first,
// and the member of etcd that answered it. The read is one linearizable request: to etcd's leader and back.
func (s *Session) RoundTrip() (member uint64, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readBy, s.lastRead
}
