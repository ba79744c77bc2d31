package child

import "syscall"

func set(attr *syscall.SysProcAttr) { attr.Setpgid, attr.Pdeathsig = true, syscall.SIGKILL }
