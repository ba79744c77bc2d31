package once_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/once"
)

// An invoice is sent once, whichever nodes send it, and however often. If a process dies in the middle, the
// outcome is found at the receiver and recorded.
func Example() {
	send := func(ctx context.Context, c *cluster.Cluster, invoice string) error {
		result, err := c.Once(ctx, "invoice/"+invoice, func(ctx context.Context, token int64) ([]byte, error) {
			return []byte("message-id"), nil // an error is recorded, and the next call runs the function again
		})
		var unknown *once.UnknownError
		if errors.As(err, &unknown) {
			tookPlace := false // ask the receiving system, by the effect's name
			return c.Effects().Resolve(ctx, unknown.Name, unknown.Token, tookPlace, nil)
		}
		if err == nil {
			fmt.Printf("%s, sent by this call: %v\n", result.Value, result.Ran)
		}
		return err
	}
	_ = send
}
