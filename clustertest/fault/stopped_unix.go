//go:build unix && !linux

package fault

import (
	"fmt"
	"os/exec"
)

// stopped reports whether a process stands still, according to ps.
func stopped(pid int) (bool, error) {
	state, err := exec.Command("ps", "-o", "state=", "-p", fmt.Sprint(pid)).Output()
	return err == nil && len(state) > 0 && state[0] == 'T', err
}
