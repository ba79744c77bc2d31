package processor_test

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
)

// orders is a source: a log to which other goroutines append orders.
type orders struct {
	processor.Signal // new orders need not wait for the next poll

	mu  sync.Mutex
	all []string
}

func (o *orders) append(order string) {
	o.mu.Lock()
	o.all = append(o.all, order)
	o.mu.Unlock()
	o.Notify()
}

func (o *orders) Read(_ context.Context, after processor.Position, limit int) ([]processor.Event[string], error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, _ := strconv.Atoi(string(after)) // "" is the beginning
	var events []processor.Event[string]
	for ; n < len(o.all) && len(events) < limit; n++ {
		events = append(events, processor.Event[string]{Position: processor.Position(strconv.Itoa(n + 1)), Value: o.all[n]})
	}
	return events, nil
}

// One process of the cluster at a time projects a view. Another process with the same code continues when this
// one stops or dies.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	etcd, err := embedetcd.Start(ctx, embedetcd.Config{}) // a real program uses an existing etcd
	if err != nil {
		log.Fatal(err)
	}
	defer etcd.Close()
	n, err := node.NewNode(node.Config{AdvertiseAddress: "localhost:0"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{Client: etcd.Client(), EtcdPrefix: "/example-processor"}, n)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}

	source := &orders{}
	handled := make(chan struct{})
	views, err := processor.New(processor.Config[string]{
		Name:        "views",
		Source:      source,
		Checkpoint:  c.Checkpoints(),
		LeaderLock:  processor.Election(c.Elections(), "views"),
		MaxAttempts: 2,
		Handler: func(_ context.Context, e processor.Event[string]) error {
			if e.Value == "" {
				return fmt.Errorf("an order of nothing")
			}
			fmt.Println(e.Position, e.Value)
			if e.Value == "pears" {
				close(handled)
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- views.Run(running) }()

	source.append("apples")
	source.append("") // it is tried again and then parked
	source.append("pears")
	<-handled
	stop() // the next in the election's queue would continue after the pears
	fmt.Println("ended:", <-ended)
	parked, err := c.Checkpoints().Parked(ctx, "views")
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range parked {
		fmt.Printf("parked: %s, tried %d times: %s\n", p.Position, p.Attempts, p.Error)
	}
	fmt.Println("stopped:", c.Stop(ctx))
	// Output:
	// 1 apples
	// 3 pears
	// ended: <nil>
	// parked: 2, tried 2 times: an order of nothing
	// stopped: <nil>
}
