package cli

import "time"

// SecondAfter is the time after the first signal that asks for the end from which another one counts as the
// second. Earlier ones count as the same request, because timeout(1) and others signal a process and also its
// whole group.
const SecondAfter = 500 * time.Millisecond
