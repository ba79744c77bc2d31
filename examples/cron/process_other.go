//go:build !unix

package main

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func end(p *os.Process) error { return p.Kill() }
