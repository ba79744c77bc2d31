// Package race says whether the race detector is on, under which a program takes several times as long, and goroutines
// that are to run at one instant run in an order that is drawn.
package race
