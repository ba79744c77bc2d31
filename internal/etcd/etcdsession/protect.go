package etcdsession

import "slices"

// Protection is a key that every read of a renewal must find as it was created.
type Protection struct {
	s      *Session
	key    string
	create int64
	lost   func()
}

// ProtectKey makes every renewal from now on check that key exists with the given CreateRevision. If a read does
// not show that, the renewing goroutine calls lost before the deadline moves, so lost must not block. A nil
// lost means that the session itself depends on the key and is lost with it.
//
// Only a read that was sent after ProtectKey returned can call lost.
func (s *Session) ProtectKey(key string, createRevision int64, lost func()) *Protection {
	p := &Protection{s: s, key: key, create: createRevision, lost: lost}
	s.mu.Lock()
	s.protected = append(s.protected, p)
	s.mu.Unlock()
	return p
}

// Release ends the protection. A round in progress may still call lost.
func (p *Protection) Release() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	// A round in progress reads the old slice.
	p.s.protected = slices.DeleteFunc(slices.Clone(p.s.protected), func(q *Protection) bool { return q == p })
}
