package samples

// Ring keeps the newest items. The zero value has room for none. It is not safe for concurrent use.
type Ring[T any] struct {
	items []T
	next  int // the place of the next item, once the ring is full
}

// NewRing returns an empty ring for at most limit items.
func NewRing[T any](limit int) Ring[T] { return Ring[T]{items: make([]T, 0, limit)} }

// Add adds an item. A full ring drops the oldest one.
func (r *Ring[T]) Add(item T) {
	switch {
	case cap(r.items) == 0:
		return
	case len(r.items) < cap(r.items):
		r.items = append(r.items, item)
		return
	}
	r.items[r.next] = item
	r.next = (r.next + 1) % len(r.items)
}

// All returns the items in a new slice, the oldest first.
func (r *Ring[T]) All() []T {
	return append(append(make([]T, 0, len(r.items)), r.items[r.next:]...), r.items[:r.next]...)
}
