package embedetcd_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goverse/goverse/embedetcd"
)

// A test gets a real etcd, at a free port and in a temporary directory. Both are free again after Close.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	etcd, err := embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{}))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := etcd.Client().Put(ctx, "/greeting", "hello"); err != nil { // other processes dial etcd.Endpoint()
		log.Fatal(err)
	}
	reply, err := etcd.Client().Get(ctx, "/greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(reply.Kvs[0].Value), etcd.Close())
	// Output: hello <nil>
}
