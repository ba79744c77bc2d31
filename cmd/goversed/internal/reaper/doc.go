// Package reaper lets a program run as process 1 of a container.
//
// Process 1 becomes the parent of every process that loses its own parent. It has to reap these when they end;
// otherwise they remain as zombies. A program that starts commands of its own cannot simply wait for any child,
// because it would take the exit status from the code that waits for that command. Therefore process 1 is this
// program as a reaper, which does nothing else, and the actual program is its child:
//
//	func main() {
//		if status, done := reaper.Run(); done {
//			os.Exit(status)
//		}
//		…
//	}
//
//	process 1 (reaper) ── signals ──► the program ──► its commands
//	    ▲ collects all                 │ exit status       │ orphans
//	    └──────────────────────────────┴───────────────────┘
//
// The reaper passes on every signal that the program does not inherit as ignored. It exits with the program's
// status, or with 128 plus the number of the signal that ended it. At a terminal the program is in the
// foreground, so that Ctrl-C reaches it only once.
//
// Not promised: on systems other than Linux, [Run] does nothing.
package reaper
