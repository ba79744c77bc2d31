// Package reaper lets a program be process 1 of a container.
//
// Process 1 becomes the parent of every process whose own parent has ended, and has to collect them when they end, or
// they stay as zombies. A program that starts commands of its own cannot simply wait for any child: it would take
// the end of a command away from the code that waits for it. So process 1 is this program as a reaper, which does
// nothing else, and the program proper is its child:
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
// The reaper passes on every signal but those that the program inherits as ignored, and exits as the program does:
// with its status, or 128 and the signal that ended it. At a terminal the program is in the foreground, so that Ctrl-C
// reaches it once.
//
// Not promised: anything but on Linux, where [Run] reports that there is nothing to be done.
package reaper
