package history_test

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/test/history"
)

// In this recording a leads until 9 ms, and b from 5 ms on.
func ExampleCheck() {
	at := func(before, after time.Duration) history.Window {
		return history.Window{Before: history.Instant(before * time.Millisecond),
			After: history.Instant(after * time.Millisecond)}
	}
	h := history.History{Runs: []history.Run{
		{NodeLife: history.NodeLife{Process: "1", Node: "a"}, Leads: true, Token: 7, First: at(0, 1),
			Last: at(9, 10), Count: 9},
		{NodeLife: history.NodeLife{Process: "2", Node: "b"}, Leads: true, Token: 8, First: at(4, 5),
			Last: at(20, 21), Count: 16},
	}}
	v := history.Check(h, history.Limits{})
	fmt.Println(v.Summary())
	for _, f := range v.Findings {
		fmt.Printf("%s, for %v at least\n", f.Text, f.Length())
	}
	// Output:
	// FAILED: overlap: 1
	// two leaders: a (1) by token 7, and b (2) by token 8, for 4ms at least
}
