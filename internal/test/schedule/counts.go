package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Counts counts the events of one schedule or of many, by name. The zero value is ready. It is safe for
// concurrent use.
type Counts struct {
	mu      sync.Mutex
	events  map[string]int
	longest map[string]time.Duration
}

// Count counts one event.
func (c *Counts) Count(event string) { c.Add(event, 1) }

// Add counts an event n times.
func (c *Counts) Add(event string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events == nil {
		c.events, c.longest = map[string]int{}, map[string]time.Duration{}
	}
	c.events[event] += n
}

// Lasted records the duration of a counted event, of which the longest is kept.
func (c *Counts) Lasted(event string, d time.Duration) {
	c.Add(event, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest[event] = max(c.longest[event], d)
}

// Of returns the number of events of that name.
func (c *Counts) Of(event string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events[event]
}

// addAll adds the counts of another schedule.
func (c *Counts) addAll(o *Counts) {
	for event, n := range o.events {
		c.Add(event, n)
	}
	for event, d := range o.longest {
		c.Lasted(event, d)
	}
}

// String returns the counts as a table.
func (c *Counts) String() string {
	var b strings.Builder
	for _, event := range slices.Sorted(maps.Keys(c.events)) {
		fmt.Fprintf(&b, "%9d  %s", c.events[event], event)
		if d, lasts := c.longest[event]; lasts {
			fmt.Fprintf(&b, " (for %v at most)", d.Round(time.Millisecond))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
