package state

import "net/url"

// Checkpoint is the key of how far the processor of that name has come. It lies outside the
// range that every node watches.
func (k Keys) Checkpoint(name string) string {
	return k.prefix + "/work/checkpoints/" + url.PathEscape(name)
}

// Parked is the prefix of what is known of the events that the processor of that name has given
// up, with its slash.
func (k Keys) Parked(name string) string {
	return k.prefix + "/work/parked/" + url.PathEscape(name) + "/"
}

// ParkedEvent is the key of what is known of the event at that position.
func (k Keys) ParkedEvent(name, position string) string {
	return k.Parked(name) + url.PathEscape(position)
}
