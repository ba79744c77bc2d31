package automation_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/lock"
)

// Every process runs this program; each user is welcomed by one of them. A user who is welcomed is off the list.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	unwelcomed := map[string]string{"1": "Ada", "2": "Brian", "3": "Carl"} // a real program reads a store

	users, err := automation.NewList(automation.ListConfig[string]{
		Locks: &lock.Memory{}, // a real program uses Cluster.Locks
		List: func(_ context.Context, after string, limit int) (page []automation.Item[string], err error) {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range slices.Sorted(maps.Keys(unwelcomed)) {
				if id > after && len(page) < limit {
					page = append(page, automation.Item[string]{Key: id, Value: unwelcomed[id]})
				}
			}
			return page, nil
		},
		Due: func(_ context.Context, user automation.Item[string]) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			return unwelcomed[user.Key] != "", nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	welcome, err := automation.New(automation.Config[string]{Name: "welcome", Source: users, Concurrency: 2,
		Execute: func(_ context.Context, user automation.Item[string]) error {
			mu.Lock()
			defer mu.Unlock()
			fmt.Println("welcome,", user.Value)
			if delete(unwelcomed, user.Key); len(unwelcomed) == 0 {
				cancel()
			}
			return nil
		}})
	if err != nil {
		log.Fatal(err)
	}
	if err := welcome.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(welcome.Status().Done, "done")
	// Unordered output:
	// welcome, Ada
	// welcome, Brian
	// welcome, Carl
	// 3 done
}
