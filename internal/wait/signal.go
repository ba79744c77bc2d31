package wait

// Signal is a channel that wakes the goroutine that receives from it. Signals that were sent before it receives
// arrive as one. A nil Signal never arrives.
type Signal chan struct{}

// NewSignal returns a signal that has not been sent.
func NewSignal() Signal { return make(Signal, 1) }

// Send wakes the receiver, now or at its next receive. It does not block.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
