package supervise

import "github.com/goverse/goverse/cmd/goversed/internal/supervise/ending"

// What the operating system calls strings are bytes, which need not be UTF-8. A string of JSON
// must be, and would have others in their place; a []byte keeps them.

// raw has the bytes of the strings.
func raw(all []string) [][]byte {
	out := make([][]byte, len(all))
	for i, s := range all {
		out[i] = []byte(s)
	}
	return out
}

// texts undoes raw.
func texts(all [][]byte) []string {
	out := make([]string, len(all))
	for i, b := range all {
		out[i] = string(b)
	}
	return out
}

// spec is the first thing the holder tells the guard: what to run, and until when.
type spec struct {
	Path  []byte         `json:"path"`
	Args  [][]byte       `json:"args"` // with the command's name
	Env   [][]byte       `json:"env"`
	Times ending.Times   `json:"times"`
	Until ending.Instant `json:"until"`
	// Cgroup is the directory of the cgroup to run in, or "".
	Cgroup []byte `json:"cgroup,omitempty"`
	// Terminal: the command gets the terminal, so that Ctrl-Z would leave it held by somebody
	// who is stopped.
	Terminal bool `json:"terminal,omitempty"`
	// Lease is what to revoke when the holder is gone.
	Lease int64 `json:"lease"`
}

// order is what the holder tells the guard after that, one field at a time.
type order struct {
	Until  *ending.Instant `json:"until,omitempty"`
	Signal int             `json:"signal,omitempty"` // to the command's group
	End    bool            `json:"end,omitempty"`    // the command
	Hurry  bool            `json:"hurry,omitempty"`  // kill it
	Done   bool            `json:"done,omitempty"`   // released: the guard can go
}

// report is what the guard tells the holder: first how the start went, and in the end Gone.
type report struct {
	Pid int `json:"pid,omitempty"` // of the command, and its group
	// Refused is why it could not be started, and Code the exit code that shells have for that.
	Refused []byte `json:"refused,omitempty"`
	Gone    bool   `json:"gone,omitempty"`
	// Code is the command's exit code, or 128 plus the signal that ended it.
	Code int        `json:"code,omitempty"`
	Why  ending.Why `json:"why,omitempty"`
}
