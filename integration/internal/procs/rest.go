package procs

import "time"

// maxPollPause limits the pause after an answer that was slow because the asked process was paused.
const maxPollPause = 100 * time.Millisecond

// PollPause returns the pause between two polls after an answer that took the given time: every, or four times as
// long as the answer if that is longer, so that polling does not keep an overloaded machine busy. The pause is
// 100 ms at most, unless every is longer.
func PollPause(every, took time.Duration) time.Duration { return max(every, min(4*took, maxPollPause)) }
