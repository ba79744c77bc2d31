package shard_test

import (
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/shard"
)

// Any program can compute the shard of a key. A node that does not serve it names the owner.
func Example() {
	fmt.Println(shard.Of("customer/42", shard.DefaultCount))

	// Shards.Serve of package cluster returns such an error.
	var err error = &shard.NotOwnerError{Shard: 7, Owner: "10.0.0.2:47001"}
	var other *shard.NotOwnerError
	if errors.As(err, &other) {
		fmt.Println("ask", other.Owner)
	}
	fmt.Println(errors.Is(err, shard.ErrNotOwner))
	// Output:
	// 4948
	// ask 10.0.0.2:47001
	// true
}
