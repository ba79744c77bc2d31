package cli

import "time"

// SecondAfter is how long after the first signal that asks for the end another one counts as
// the second. Sooner it is the same request: timeout(1) and others signal a process and its whole
// group.
const SecondAfter = 500 * time.Millisecond
