package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// waitNotice says once, on the standard error, that a command waits for etcd. Its methods are safe for concurrent use.
type waitNotice struct {
	out           io.Writer
	program, etcd string
	once          sync.Once
}

// show writes the line. Finding is the cause with its remedy, "" if it is not known; left is the time that the command
// goes on waiting, 0 if that has no limit.
func (n *waitNotice) show(finding string, left time.Duration) {
	n.once.Do(func() { _, _ = fmt.Fprintf(n.out, "%s: %s\n", n.program, waitLine(n.etcd, finding, left)) })
}

// waitLine returns the line without the name of the program.
func waitLine(etcd, finding string, left time.Duration) string {
	line := "waiting for etcd at " + etcd
	if left > 0 {
		line += fmt.Sprintf(", %v at most", left)
	}
	if finding != "" {
		return line + ": " + finding
	}
	return line + " ..."
}
