package state

import (
	"net/url"
	"strings"
)

// Checkpoint returns the key of the checkpoint of the processor with that name. It lies outside the range that
// every node watches.
func (k Keys) Checkpoint(name string) string {
	return k.Checkpoints() + url.PathEscape(name)
}

// Parked returns the prefix of the keys about the parked events of the processor with that name, with its
// slash.
func (k Keys) Parked(name string) string {
	return k.prefix + "/work/parked/" + url.PathEscape(name) + "/"
}

// ParkedEvent returns the key about the parked event at that position.
func (k Keys) ParkedEvent(name, position string) string {
	return k.Parked(name) + url.PathEscape(position)
}

// Checkpoints returns the prefix of all checkpoints' keys, with its slash.
func (k Keys) Checkpoints() string { return k.prefix + "/work/checkpoints/" }

// ProcessorOf returns the name of the processor whose checkpoint has that key.
func (k Keys) ProcessorOf(key string) (name string, ok bool) {
	escaped, ok := strings.CutPrefix(key, k.Checkpoints())
	if !ok || escaped == "" {
		return "", false
	}
	name, err := url.PathUnescape(escaped)
	return name, err == nil && k.Checkpoint(name) == key
}

// ProcessorPause returns the key of the last request to pause or resume the processor with that name.
func (k Keys) ProcessorPause(name string) string {
	return k.prefix + "/work/pauses/" + url.PathEscape(name)
}

// ProcessorReport returns the key of the report of that processor's leader.
func (k Keys) ProcessorReport(name string) string {
	return k.prefix + "/work/reports/" + url.PathEscape(name)
}

// Retries returns the prefix of the keys that request retries of that processor's parked events, with its slash.
func (k Keys) Retries(name string) string {
	return k.prefix + "/work/retries/" + url.PathEscape(name) + "/"
}

// RetryOf returns the key that requests a retry of the parked event at that position.
func (k Keys) RetryOf(name, position string) string {
	return k.Retries(name) + url.PathEscape(position)
}
