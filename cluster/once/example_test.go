package once_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/once"
)

// An invoice is sent once, whichever nodes try, and however often. If a process dies in the middle,
// somebody who can look says what is true.
func Example() {
	send := func(ctx context.Context, c *cluster.Cluster, invoice string) error {
		result, err := c.Once(ctx, "invoice/"+invoice, func(ctx context.Context, token int64) ([]byte, error) {
			return []byte("message-id"), nil // an error is remembered, and the next call tries again
		})
		var unknown *once.UnknownError
		if errors.As(err, &unknown) {
			tookPlace := false // ask the system that receives it, by the effect's name
			return c.Effects().Resolve(ctx, unknown.Name, unknown.Token, tookPlace, nil)
		}
		if err == nil {
			fmt.Printf("%s, sent by this call: %v\n", result.Value, result.Ran)
		}
		return err
	}
	_ = send
}
