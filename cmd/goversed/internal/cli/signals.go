package cli

import "time"

// SecondAfter is the least time between the first signal that asks for the end and one that counts as the
// second. Earlier ones belong to the same request, because timeout(1) and others signal a process and also its
// whole group.
const SecondAfter = 500 * time.Millisecond
