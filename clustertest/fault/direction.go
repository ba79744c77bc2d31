package fault

// Direction says which way through a relay a fault works.
type Direction int

// The directions. A client is what connected to the relay.
const (
	// ToTarget is what clients send.
	ToTarget Direction = 1 << iota
	// FromTarget is what the target sends.
	FromTarget
	// Both is one and the other.
	Both = ToTarget | FromTarget
)

// String names the direction.
func (d Direction) String() string {
	switch d {
	case ToTarget:
		return "to the target"
	case FromTarget:
		return "from the target"
	case Both:
		return "both ways"
	default:
		return "no direction"
	}
}

// ways are the single directions in d. It panics if there is none: a fault that
// works in no direction is a mistake of the caller's.
func (d Direction) ways() []Direction {
	switch d {
	case ToTarget, FromTarget:
		return []Direction{d}
	case Both:
		return []Direction{ToTarget, FromTarget}
	default:
		panic("fault: use ToTarget, FromTarget or Both")
	}
}
