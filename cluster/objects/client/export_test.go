package client

import (
	"context"
	"time"
)

// DialRestless is Dial with a timing for tests: other nodes are asked soon, and an older map is taken after a moment.
func DialRestless(ctx context.Context, cfg Config) (*Client, error) {
	return dial(ctx, cfg, timing{stagger: 20 * time.Millisecond, round: 300 * time.Millisecond,
		stall: 100 * time.Millisecond, rotate: time.Hour, older: time.Second})
}

// Generation is that of the shard map by which calls go.
func (c *Client) Generation() int64 { return c.table.current.Load().generation }

// Leader is who leads as far as the client knows.
func (c *Client) Leader() string { return c.table.current.Load().leader }
