//go:build !unix

package dev

import "syscall"

// childAttributes asks for nothing special.
func childAttributes() *syscall.SysProcAttr { return nil }
