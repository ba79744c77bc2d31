package leasequeue

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// outboxCheck makes lanes take from an outbox in any order, and knows the requested operations.
type outboxCheck struct {
	t        *rapid.T
	b        *outbox
	limit    int
	asked    []queueOp    // not taken yet, in order
	underWay [3][]queueOp // by lane
	idle     map[int]bool // lanes that found nothing and wait to be woken
}

func (c *outboxCheck) add() {
	x := &Entry{q: &Queues{}, queue: fmt.Sprint(rapid.IntRange(0, 3).Draw(c.t, "queue"))}
	o := queueOp{entry: x, creates: rapid.Bool().Draw(c.t, "enter")}
	c.asked = append(c.asked, o)
	c.b.addOp(o)
}

// lane takes as lane.run does: after finishOps, or when it is woken.
func (c *outboxCheck) lane(i int) {
	switch {
	case c.underWay[i] != nil:
		c.b.finishOps(c.underWay[i])
		c.underWay[i] = nil
	case c.idle[i]:
		select {
		case <-c.b.wake:
		default:
			return
		}
	}
	batch := c.b.takeBatch(c.limit)
	underway := 0
	for _, o := range slices.Concat(append(c.underWay[:], batch)...) {
		underway += o.opCount()
	}
	require.Equal(c.t, underway, c.b.inFlight)
	c.idle[i] = len(batch) == 0
	if c.idle[i] {
		return
	}
	cost, entering := 0, map[string]bool{}
	for _, o := range batch {
		cost += o.opCount()
		at := slices.Index(c.asked, o)
		require.GreaterOrEqual(c.t, at, 0, "asked for once, taken once")
		if o.creates {
			queue := o.entry.queue
			require.False(c.t, entering[queue], "two enter one queue at once")
			entering[queue] = true
			for _, other := range slices.Concat(c.underWay[:]...) {
				require.NotEqual(c.t, queue, other.entry.queue, "one enters while another one of the queue is under way")
			}
			for _, before := range c.asked[:at] {
				require.NotEqual(c.t, queue, before.entry.queue, "one enters before what was asked before")
			}
		}
		c.asked = slices.Delete(c.asked, at, at+1)
	}
	require.LessOrEqual(c.t, cost, c.limit)
	c.underWay[i] = batch
}

func TestOutboxKeepsTheOrderWithinAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &outboxCheck{t: t, b: newOutbox(), limit: rapid.IntRange(2, 9).Draw(t, "limit"), idle: map[int]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"add":  func(t *rapid.T) { c.t = t; c.add() },
			"lane": func(t *rapid.T) { c.t = t; c.lane(rapid.IntRange(0, 2).Draw(t, "lane")) },
		})
		// Without further requests everything is taken, whatever the order of the answers.
		for steps := 4 * (len(c.asked) + 3); steps > 0; steps-- {
			for i := range c.underWay {
				c.lane(i)
			}
		}
		require.Empty(t, c.asked, "something is left though all lanes have answers")
		require.Empty(t, c.b.lines)
	})
}

func TestWhatOneLaneLeavesWakesAnother(t *testing.T) {
	b := newOutbox()
	for range 2 {
		b.addOp(queueOp{entry: &Entry{q: &Queues{}, queue: "a"}})
	}
	<-b.wake
	require.Len(t, b.takeBatch(1), 1)
	require.Len(t, b.wake, 1)
	<-b.wake
	require.Len(t, b.takeBatch(1), 1)
	require.Empty(t, b.wake)
}

// A deletion makes room for a creation in the same transaction, also if the deletion was taken before and is
// not finished.
func TestLeavingAndEnteringGoTogether(t *testing.T) {
	b := newOutbox()
	out, in, behind := queueOp{entry: &Entry{q: &Queues{}, queue: "a"}}, queueOp{entry: &Entry{q: &Queues{}, queue: "a"},
		creates: true}, queueOp{entry: &Entry{q: &Queues{}, queue: "a"}, creates: true}
	b.addOp(in)
	b.addOp(out)
	require.Equal(t, []queueOp{out}, b.takeDeletions(5, nil))
	require.Empty(t, b.takeBatch(1))
	require.Empty(t, b.takeBatch(5), "another lane has it, and may be overtaken")
	b.addOp(behind)
	require.Equal(t, []queueOp{out, in}, b.takeBatch(5, out))
	b.finishOps([]queueOp{out, in})
	require.Equal(t, []queueOp{behind}, b.takeBatch(5))
	b.finishOps([]queueOp{behind})
	require.Empty(t, b.lines)
}

// A batch takes all of few operations, and its share of many, because the other lanes send too.
func TestShareOfMany(t *testing.T) {
	b := newOutbox()
	add := func(n int) {
		for range n {
			b.addOp(queueOp{entry: &Entry{q: &Queues{}, queue: "left"}})
		}
	}
	add(100)
	require.Equal(t, 100, len(b.takeBatch(maxBatchOps)))
	add(laneCount*maxTxnOps - 100)
	for range laneCount - 1 {
		require.Equal(t, maxTxnOps, len(b.takeBatch(maxBatchOps)))
	}
	require.Equal(t, maxTxnOps-100, len(b.takeBatch(maxBatchOps)), "what is left")
}
