package leaderelection_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/embedetcd"
)

// One of several copies of a program does the work. No port is opened, and nothing but etcd is needed.
func Example() {
	ctx := context.Background()
	etcd, err := embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{})) // a program uses an etcd that runs
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = etcd.Close() }()

	election, runner, err := leaderelection.New(leaderelection.Config{EtcdAddress: etcd.Endpoint(),
		EtcdPrefix: "/example"})
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Start(ctx); err != nil {
		log.Fatal(err)
	}
	err = election.Lead(ctx, func(ctx context.Context, term leaderelection.Term) error {
		fmt.Println("leads:", term.Valid())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Stop(ctx); err != nil { // hands over to the next copy
		log.Fatal(err)
	}
	// Output: leads: true
}
