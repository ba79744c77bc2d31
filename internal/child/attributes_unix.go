//go:build unix && !linux

package child

import "syscall"

func set(attr *syscall.SysProcAttr) { attr.Setpgid = true }
