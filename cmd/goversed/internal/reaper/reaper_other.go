//go:build !linux

package reaper

// Run reports that there is nothing to be done here.
func Run() (status int, done bool) { return 0, false }
