package supervise

import "github.com/goverse/goverse/cmd/goversed/internal/supervise/ending"

// Strings of the operating system are bytes that need not be UTF-8. JSON strings must be, so encoding/json
// would replace invalid bytes; it preserves a []byte.

func encodeStrings(all []string) [][]byte {
	out := make([][]byte, len(all))
	for i, s := range all {
		out[i] = []byte(s)
	}
	return out
}

func decodeStrings(all [][]byte) []string {
	out := make([]string, len(all))
	for i, b := range all {
		out[i] = string(b)
	}
	return out
}

// guardSpec is the first message of the holder to the guard: the command, and its deadline.
type guardSpec struct {
	Path  []byte         `json:"path"`
	Args  [][]byte       `json:"args"` // with the command's name
	Env   [][]byte       `json:"env"`
	Times ending.Times   `json:"times"`
	Until ending.Instant `json:"until"`
	// Cgroup is the directory of the command's cgroup, or "".
	Cgroup []byte `json:"cgroup,omitempty"`
	// Terminal reports that the command gets the terminal. Ctrl-Z would then leave the lock with a stopped
	// process.
	Terminal bool `json:"terminal,omitempty"`
	// Session is the session to end when the holder is gone: the lease to revoke, or the session in PostgreSQL.
	Session int64 `json:"session"`
}

// guardOrder is a later message of the holder to the guard. One field is set.
type guardOrder struct {
	Until  *ending.Instant `json:"until,omitempty"`
	Signal int             `json:"signal,omitempty"` // to the command's group
	End    bool            `json:"end,omitempty"`    // end the command
	Hurry  bool            `json:"hurry,omitempty"`  // kill the command
	Done   bool            `json:"done,omitempty"`   // the lock is released, and the guard can leave
}

// guardReport is a message of the guard to the holder. The first one reports the start; the last one has Gone set.
type guardReport struct {
	Pid int `json:"pid,omitempty"` // of the command, and its group
	// Refused is the reason why the command could not be started. Code is then the exit code that shells use
	// for it.
	Refused []byte `json:"refused,omitempty"`
	Gone    bool   `json:"gone,omitempty"`
	// Code is the command's exit code, or 128 plus the number of the signal that ended it.
	Code int           `json:"code,omitempty"`
	Why  ending.Reason `json:"why,omitempty"`
}
