package event_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goverse/goverse/cluster/event"
)

// A program reads what goversed events -o json has written, and looks for times without a leader. In a node,
// Cluster.Events lists and watches the same events.
func Example() {
	written := `{"seq":7,"time":"2026-03-01T10:00:00Z","type":"leader_lost","node":"10.0.0.1:7000","token":3}
{"seq":9,"time":"2026-03-01T10:00:00.2Z","type":"leader_elected","node":"10.0.0.2:7000","token":8,"seconds":0.2}
`
	lines := bufio.NewScanner(strings.NewReader(written))
	for lines.Scan() {
		var e event.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(err)
			return
		}
		if e.Type == event.LeaderElected && e.Seconds > 0 {
			fmt.Printf("%s leads with token %d, after %v s without a leader\n", e.Node, e.Token, e.Seconds)
		}
	}
	// Output:
	// 10.0.0.2:7000 leads with token 8, after 0.2 s without a leader
}
