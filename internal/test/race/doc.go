// Package race reports whether the race detector is on. A program with it takes several times as long, and
// goroutines that become runnable at one instant run in random order.
package race
