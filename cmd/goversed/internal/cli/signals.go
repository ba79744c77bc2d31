package cli

import "time"

// SecondSignalAfter is the least time between the first signal that asks for the end and one that counts as the
// second. Earlier ones belong to the same request, because timeout(1) and others signal a process and also its
// whole group.
const SecondSignalAfter = 500 * time.Millisecond
