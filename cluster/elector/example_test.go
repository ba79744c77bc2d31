package elector_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goverse/goverse/cluster/elector"
)

// Two candidates share one record. When the first one is stopped, the second one leads, with a larger token. A
// real program would use elector.NewEtcd or package postgres.
func Example() {
	store := elector.NewMemory()
	leads := make(chan string)
	stand := func(id string) (stop func()) {
		e, err := elector.New(elector.Config{
			LeaseStore:      store,
			CandidateID:     id,
			ReleaseOnCancel: true,
			OnStartedLeading: func(ctx context.Context) {
				leads <- fmt.Sprintf("%s leads, token %d", id, elector.TokenFrom(ctx))
				<-ctx.Done() // work, until the term is over
			},
			OnStoppedLeading: func() { fmt.Printf("%s leads no more\n", id) },
		})
		if err != nil {
			log.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				log.Fatal(err)
			}
		}
	}

	stopFirst := stand("the first")
	fmt.Println(<-leads)
	stopSecond := stand("the second")
	stopFirst()
	fmt.Println(<-leads)
	stopSecond()
	// Output:
	// the first leads, token 1
	// the first leads no more
	// the second leads, token 2
	// the second leads no more
}
