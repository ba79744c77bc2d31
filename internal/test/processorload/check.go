package processorload

import (
	"fmt"
	"maps"
	"slices"
)

// history is what the check knows of a run: the events are the numbers from 1 to last.
type history struct {
	effects []int        // in order
	last    int          // the last event
	rewinds []rewind     // in the order of the operator's requests
	parked  map[int]bool // events that were parked at some time
	dropped map[int]bool // parked events whose record was dropped
	repeats int          // the number of events that may be handled again after a kill; 0 if the checkpoint undoes them
}

// rewind is a rewind to a position. It was carried out when there were at least from and, if the checkpoint undoes
// effects, at most by effects.
type rewind struct{ to, from, by int }

// state is a possible state of the processor: the last event done, the number of rewinds carried out, and that number
// when each parked event last took effect.
type state struct {
	event, rewinds int
	parked         map[int]int
}

// check returns an error unless the effects are those of a processor that handles each event once and in order, after
// each rewind again. Parked events may be missing, and may come late.
func (h history) check() error {
	states := []state{{}}
	for i, e := range h.effects {
		var next []state
		for _, s := range h.rewound(states, i) {
			if h.follows(s.event, e) || h.repeats > 0 && e <= s.event && e > s.event-h.repeats {
				next = h.add(next, s, e, e)
			}
			if h.parked[e] { // a retry
				next = h.add(next, s, e, s.event)
			}
		}
		if len(next) == 0 {
			return fmt.Errorf("event %d cannot follow %v (effect %d): it was handled twice, or others were lost", e,
				h.effects[max(0, i-12):i], i)
		}
		states = next
	}
	return h.checkCounts()
}

// rewound returns the states in which the processor may be before an effect, with the rewinds that were carried out.
func (h history) rewound(states []state, effect int) (all []state) {
	for _, s := range states {
		for k := s.rewinds; ; k++ {
			if k == len(h.rewinds) || h.repeats > 0 || h.rewinds[k].by > effect {
				all = append(all, s)
			}
			if k == len(h.rewinds) || h.rewinds[k].from > effect {
				break
			}
			s = state{h.rewinds[k].to, k + 1, s.parked}
		}
	}
	return all
}

// add adds the state after an effect of e to all, unless e may not take effect.
func (h history) add(all []state, s state, e, event int) []state {
	to := state{event, s.rewinds, s.parked}
	if h.parked[e] {
		if !h.mayRepeat(s, e) {
			return all
		}
		to.parked = maps.Clone(s.parked)
		if to.parked == nil {
			to.parked = map[int]int{}
		}
		to.parked[e] = s.rewinds
	}
	if slices.ContainsFunc(all, to.equals) {
		return all
	}
	return append(all, to)
}

func (s state) equals(o state) bool {
	return s.event == o.event && s.rewinds == o.rewinds && maps.Equal(s.parked, o.parked)
}

// mayRepeat reports whether a parked event may take effect: for the first time, or because it was rewound to before it
// since.
func (h history) mayRepeat(s state, e int) bool {
	before, again := s.parked[e]
	return !again || h.repeats > 0 ||
		slices.ContainsFunc(h.rewinds[before:s.rewinds], func(r rewind) bool { return r.to < e })
}

// follows reports whether e may be the next event that has an effect after an event.
func (h history) follows(after, e int) bool {
	if e <= after {
		return false
	}
	for between := after + 1; between < e; between++ {
		if !h.parked[between] {
			return false
		}
	}
	return true
}

// checkCounts checks how often each event took effect.
func (h history) checkCounts() error {
	counts := make([]int, h.last+1)
	for _, e := range h.effects {
		if e < 1 || e > h.last {
			return fmt.Errorf("there is no event %d", e)
		}
		counts[e]++
	}
	for e := 1; e <= h.last; e++ {
		again := 0
		for _, r := range h.rewinds {
			if r.to < e {
				again++
			}
		}
		switch {
		case counts[e] == 0 && !h.dropped[e]:
			return fmt.Errorf("event %d was lost", e)
		case h.repeats == 0 && counts[e] > 1+again:
			return fmt.Errorf("event %d took effect %d times, and %d rewinds went before it", e, counts[e], again)
		}
	}
	return nil
}

// checkPause returns an error if there are effects that were not there when a pause was acknowledged.
func checkPause(before, after []int) error {
	if !slices.Equal(before, after) {
		return fmt.Errorf("%d events took effect during an acknowledged pause: %v", len(after)-len(before),
			after[min(len(before), len(after)):])
	}
	return nil
}
