package dev

// style is the parameters of ANSI's SGR sequence, by which a terminal shows a line; "" changes nothing.
type style string

const (
	plainStyle  style = ""
	leaderStyle style = "1;32" // bold, green
	goodStyle   style = "32"   // green
	badStyle    style = "31"   // red
	changeStyle style = "33"   // yellow
	faintStyle  style = "2"
)

// paint returns text in that style.
func (s style) paint(text string) string {
	if s == plainStyle || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// styleOf returns the style of an event's line.
func styleOf(kind eventKind) style {
	switch kind {
	case leaderElected, leaderHandedOver:
		return leaderStyle
	case leaderLost, memberGone:
		return badStyle
	case memberStopping, memberLeft, accusationRefuted:
		return changeStyle
	case memberJoined, shardsServed:
		return goodStyle
	case shardsAssigned:
		return faintStyle
	}
	return plainStyle
}

// rowStyle returns the style of a table's row. Without color only the leader's row is marked.
func rowStyle(r tableRow, color bool) style {
	switch {
	case !color && r.leads:
		return "1"
	case !color:
		return plainStyle
	case r.leads:
		return leaderStyle
	case r.state == "dead", r.state == "down", r.state == "not registered":
		return badStyle
	case r.state == "starting", r.state == "stopping", r.state == "taking over":
		return changeStyle
	}
	return plainStyle
}
