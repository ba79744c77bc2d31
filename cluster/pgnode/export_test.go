package pgnode

// RefreshPause is the least time between two reads of the nodes.
const RefreshPause = refreshPause

// StaleAfter is the age from which on the view is not relied on.
const StaleAfter = staleAfter

// TakeNotifications is takeNotifications.
var TakeNotifications = takeNotifications

// Reads returns the number of reads of the nodes.
func (n *Node) Reads() int64 { return n.reads.Load() }
