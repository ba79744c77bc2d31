package session

import "time"

// RoundTrip is how long one request to etcd took in the last renewal round that succeeded, 0
// before the first: a round is two requests, one after the other.
func (s *Session) RoundTrip() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastRound / 2
}
