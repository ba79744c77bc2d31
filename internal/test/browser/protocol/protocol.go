// Package protocol has the arguments and replies of the program internal/test/tools/browser, the service Browser.
package protocol

import "encoding/json"

// None is an empty argument or reply.
type None struct{}

// View describes the size and the look of a page.
type View struct {
	Width, Height int64
	Dark          bool
	Scale         float64 // device pixels per CSS pixel; 0 stands for 1
	ReducedMotion bool    // the reader prefers reduced motion
}

// Tab identifies an open tab.
type Tab int

// SetView changes the size and the look of a tab.
type SetView struct {
	Tab  Tab
	View View
}

// Navigate opens another address in a tab.
type Navigate struct {
	Tab     Tab
	Address string
}

// Eval evaluates a JavaScript expression in a tab. It awaits promises.
type Eval struct {
	Tab        Tab
	Expression string
}

// Value is the JSON value of an expression; undefined is null.
type Value struct{ JSON json.RawMessage }

// Press presses keys at the present focus of a tab.
type Press struct {
	Tab  Tab
	Keys string
}

// Click clicks with the mouse on a place of a tab.
type Click struct {
	Tab  Tab
	X, Y float64
}

// Picture is a PNG.
type Picture struct{ PNG []byte }

// Observed holds a tab's notes since it was opened.
type Observed struct {
	Requests []string // addresses, without data: URLs
	Faults   []string // console errors and warnings, exceptions, policy violations
}
