package format

import "sync"

// RestCache holds the unknown fields of the records that a process has read last, for callers with types that have no
// place for them. The zero value is empty. It is safe for concurrent use.
type RestCache struct {
	mu      sync.Mutex
	records map[string]versionedRest
}

type versionedRest struct {
	version int64
	rest    Rest
}

// Keep holds the unknown fields of a record as it was read or written at that version.
func (c *RestCache) Keep(key string, version int64, rest Rest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(rest) == 0 {
		delete(c.records, key)
		return
	}
	if c.records == nil {
		c.records = map[string]versionedRest{}
	}
	c.records[key] = versionedRest{version, rest}
}

// Rest returns the unknown fields of a record at that version, nil if none are known.
func (c *RestCache) Rest(key string, version int64) Rest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.records[key]; of.version == version {
		return of.rest
	}
	return nil
}
