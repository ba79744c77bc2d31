package stats_test

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/stats"
)

// The mean, and an upper bound of the median, of a histogram such as the latency of a service's calls.
func ExampleDurations() {
	latency := stats.Durations{Count: 10, Sum: 30 * time.Millisecond, Buckets: []stats.Bucket{
		{AtMost: time.Millisecond, Count: 4}, {AtMost: 5 * time.Millisecond, Count: 9},
		{AtMost: 25 * time.Millisecond, Count: 10}}}
	fmt.Println("mean:", latency.Sum/time.Duration(latency.Count))
	for _, b := range latency.Buckets {
		if b.Count >= latency.Count/2 {
			fmt.Println("half of the calls took at most", b.AtMost)
			break
		}
	}
	// Output:
	// mean: 3ms
	// half of the calls took at most 5ms
}
