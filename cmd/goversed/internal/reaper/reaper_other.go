//go:build !linux

package reaper

// Run does nothing on this system and returns false.
func Run() (status int, done bool) { return 0, false }
