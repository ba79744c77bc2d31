package schedule

import "math/rand/v2"

// Kind is one kind of fault. Begin is a function that begins it.
type Kind[Begin any] struct {
	Weight int // of its frequency
	Name   string
	Begin  Begin
}

// NewKind returns a kind of fault.
func NewKind[Begin any](weight int, name string, begin Begin) Kind[Begin] {
	return Kind[Begin]{Weight: weight, Name: name, Begin: begin}
}

// Event returns the name by which the kind is counted.
func (k Kind[Begin]) Event() string { return "fault: " + k.Name }

// Draw draws one kind by its weight.
func Draw[Begin any](r *rand.Rand, kinds []Kind[Begin]) Kind[Begin] {
	var deck []Kind[Begin]
	for _, k := range kinds {
		for range k.Weight {
			deck = append(deck, k)
		}
	}
	return Pick(r, deck...)
}
