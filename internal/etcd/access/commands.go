package access

import (
	"strings"

	"github.com/goverse/goverse/internal/state"
)

// Role says for whom Commands are.
type Role struct {
	Keys    state.Keys
	Program Program
	// Name is the role's and User the user's that gets it; "" is no user.
	Name, User string
	// PasswordFile has the password of a user that is new; "" has etcdctl ask for it.
	PasswordFile string
}

// Command is one command of a shell, and what it is for.
type Command struct {
	Line string
	For  string // "" if the line says it
}

// Commands make the role with etcdctl, and the user. They are lines for a POSIX shell, to be run by an
// administrator of etcd, once: the first one fails where the role exists.
func (r Role) Commands() []Command {
	out := []Command{{Line: line("etcdctl", "role", "add", r.Name)}}
	for _, one := range Ranges(r.Keys, r.Program) {
		out = append(out, Command{Line: one.Grant(r.Name), For: one.For})
	}
	if r.User == "" {
		return out
	}
	add := line("etcdctl", "user", "add", r.User)
	if r.PasswordFile != "" {
		add += " --interactive=false <" + quoted(r.PasswordFile)
	}
	return append(out, Command{Line: add}, Command{Line: line("etcdctl", "user", "grant-role", r.User, r.Name)})
}

// Grant is the command that gives a role the right on the range.
func (r Range) Grant(role string) string {
	return r.command("grant-permission", role, r.Right.String())
}

// Revoke is the command that takes it away.
func (r Range) Revoke(role string) string { return r.command("revoke-permission", role) }

func (r Range) command(verb string, words ...string) string {
	words = append([]string{"etcdctl", "role", verb}, words...)
	switch {
	case r.Prefix:
		words = append(words, "--prefix", r.Start)
	case r.End == "":
		words = append(words, r.Start)
	default:
		words = append(words, r.Start, r.End)
	}
	return line(words...)
}

// line is a command line of these words.
func line(words ...string) string {
	for i, w := range words {
		words[i] = quoted(w)
	}
	return strings.Join(words, " ")
}

// quoted is a word as a shell reads it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/_.:-+@%,=", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
