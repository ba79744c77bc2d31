package clustertest_test

import (
	"fmt"

	"github.com/goverse/goverse/clustertest"
)

// In a real test, t is the argument of the test function.
func ExampleNew() {
	t := newT()
	defer t.end()

	c := clustertest.New(t, 3)
	first, second := c.Node(0), c.Node(1)
	c.WaitLeaderIs(first.Address())

	first.Kill() // as a crash would: nothing is handed over
	c.WaitLeaderIs(second.Address())
	fmt.Println("the next in the queue leads:", second.IsLeader())

	// Output: the next in the queue leads: true
}
