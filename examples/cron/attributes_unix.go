//go:build unix && !linux

package main

import "syscall"

// attributes: a group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
