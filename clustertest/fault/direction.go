package fault

// Direction selects the direction through a relay in which a fault works.
type Direction int

// The directions. A client is a program that is connected to the relay.
const (
	// ToTarget is the direction from the clients to the target.
	ToTarget Direction = 1 << iota
	// FromTarget is the direction from the target to the clients.
	FromTarget
	// Both stands for both directions.
	Both = ToTarget | FromTarget
)

// String returns the direction as text.
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

// singles returns the single directions in d. It panics if there is none, because a fault without a direction is a
// mistake of the caller.
func (d Direction) singles() []Direction {
	switch d {
	case ToTarget, FromTarget:
		return []Direction{d}
	case Both:
		return []Direction{ToTarget, FromTarget}
	default:
		panic("fault: use ToTarget, FromTarget or Both")
	}
}
