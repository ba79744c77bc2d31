package client

import (
	"context"
	"time"
)

// DialRestless is Dial with a timing for tests: the client asks other nodes soon, and accepts an older map
// early.
func DialRestless(ctx context.Context, cfg Config) (*Client, error) {
	return dialWithTiming(ctx, cfg, watchTiming{stagger: 20 * time.Millisecond, round: 300 * time.Millisecond,
		stall: 100 * time.Millisecond, rotate: time.Hour, older: time.Second})
}

// Generation returns the generation of the shard map that the client uses.
func (c *Client) Generation() int64 { return c.table.current.Load().generation }

// Leader returns the leader as far as the client knows.
func (c *Client) Leader() string { return c.table.current.Load().leader }
