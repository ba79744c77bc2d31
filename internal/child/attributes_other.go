//go:build !unix

package child

import "syscall"

func set(*syscall.SysProcAttr) {}
