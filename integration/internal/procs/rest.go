package procs

import "time"

// restAtMost is soon enough where an answer is slow because what was asked stood still.
const restAtMost = 100 * time.Millisecond

// Rest is how long who asks again and again rests after an answer that took so long: every, and four times as long
// as the answer took where that is more, so that on a machine with too much to do the asking is not what keeps it
// busy. It is 100 ms at most, unless every is more.
func Rest(every, took time.Duration) time.Duration { return max(every, min(4*took, restAtMost)) }
