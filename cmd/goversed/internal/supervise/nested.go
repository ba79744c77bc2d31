//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goverse/goverse/internal/state"
)

// errNested is returned when this process would wait for one that waits for it.
var errNested = errors.New("it would wait for itself forever")

// keysEnv names the variable with the keys of all goversed exec and lock around a command, the innermost last.
const keysEnv = "GOVERSE_KEYS"

// outerKeys returns the keys, held by processes around this one, that this process would wait for in vain.
func (c Config) outerKeys() []string {
	if c.Try {
		return nil // it does not wait
	}
	_, mine := c.kindAndName()
	var out []string
	for _, key := range strings.Fields(lookupEnv(c.Env, keysEnv)) {
		if name, ok := c.claimQueues().NameOf(key); ok && name == mine && !(c.Shared && state.TraitsOf(key).Shared) {
			out = append(out, key)
		}
	}
	return out
}

// lookupEnv returns the value of a variable. The last definition counts.
func lookupEnv(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// nestedError returns an error that matches errNested.
func (r *runner) nestedError() error {
	if r.cfg.Election != "" {
		return fmt.Errorf("%s is led by the goversed exec that this one runs under, and %w: run the command itself, or "+
			"give another --election", r.cfg.describe(), errNested)
	}
	return fmt.Errorf("%s is held by the goversed lock that this one runs under, and %w: run the command itself, or "+
		"give another NAME", r.cfg.describe(), errNested)
}
