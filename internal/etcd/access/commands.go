package access

import (
	"strings"

	"github.com/goverse/goverse/internal/state"
)

// Role describes the role, and the user, that Commands creates.
type Role struct {
	Keys    state.Keys
	Program Program
	// Name is the name of the role. User is the user that receives it; "" means no user.
	Name, User string
	// PasswordFile holds the password of a new user; if it is "", etcdctl asks for the password.
	PasswordFile string
}

// Command is one shell command and its purpose.
type Command struct {
	Line    string
	Purpose string // "" if the line needs no explanation
}

// Commands returns the etcdctl commands that create the role and the user. They are lines for a POSIX shell, to
// be run once by an administrator of etcd: the first one fails if the role exists.
func (r Role) Commands() []Command {
	out := []Command{{Line: commandLine("etcdctl", "role", "add", r.Name)}}
	for _, one := range Ranges(r.Keys, r.Program) {
		out = append(out, Command{Line: one.GrantCommand(r.Name), Purpose: one.Purpose})
	}
	if r.User == "" {
		return out
	}
	add := commandLine("etcdctl", "user", "add", r.User)
	if r.PasswordFile != "" {
		add += " --interactive=false <" + shellQuoted(r.PasswordFile)
	}
	return append(out, Command{Line: add}, Command{Line: commandLine("etcdctl", "user", "grant-role", r.User, r.Name)})
}

// GrantCommand returns the command that grants a role the right on the range.
func (r Range) GrantCommand(role string) string {
	return r.roleCommand("grant-permission", role, r.Right.String())
}

// RevokeCommand returns the command that revokes it.
func (r Range) RevokeCommand(role string) string { return r.roleCommand("revoke-permission", role) }

func (r Range) roleCommand(verb string, words ...string) string {
	words = append([]string{"etcdctl", "role", verb}, words...)
	switch {
	case r.Prefix:
		words = append(words, "--prefix", r.Start)
	case r.End == "":
		words = append(words, r.Start)
	default:
		words = append(words, r.Start, r.End)
	}
	return commandLine(words...)
}

// commandLine returns a command line of these words.
func commandLine(words ...string) string {
	for i, w := range words {
		words[i] = shellQuoted(w)
	}
	return strings.Join(words, " ")
}

// shellQuoted returns a word quoted for a shell where necessary.
func shellQuoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/_.:-+@%,=", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
