//go:build unix && !linux

package dev

import "syscall"

// childAttributes keeps the terminal's Ctrl-C from the nodes: this process stops
// them, in order. Nothing here ends them when it is killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
