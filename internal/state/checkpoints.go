package state

import "net/url"

// Checkpoint returns the key of the checkpoint of the processor with that name. It lies outside the range that
// every node watches.
func (k Keys) Checkpoint(name string) string {
	return k.prefix + "/work/checkpoints/" + url.PathEscape(name)
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
