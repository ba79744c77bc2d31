package login

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// PasswordFile is a file with a password on its first line, which may be replaced at any time. Its methods are
// safe for concurrent use.
type PasswordFile struct {
	name string
	log  hclog.Logger

	mu     sync.Mutex
	last   string
	broken bool // the file cannot be used, and the log has reported it
}

// OpenPasswordFile reads a file for the first time. Its errors name the remedy.
func OpenPasswordFile(name string) (*PasswordFile, error) {
	password, err := readPassword(name)
	if err != nil {
		return nil, err
	}
	return &PasswordFile{name: name, log: hclog.NewNullLogger(), last: password}, nil
}

// SetLogger sets the logger that reports changes of the password and files that cannot be used. It must be called
// before Password.
func (f *PasswordFile) SetLogger(log hclog.Logger) {
	if log != nil {
		f.log = log
	}
}

// Password reads the file. If the file cannot be used, for example because it is only half written, Password
// returns the former password.
func (f *PasswordFile) Password() (string, error) {
	password, err := readPassword(f.name)
	f.mu.Lock()
	changed, breaks := err == nil && password != f.last, err != nil && !f.broken
	if f.broken = err != nil; err == nil {
		f.last = password
	}
	last := f.last
	f.mu.Unlock()
	switch {
	case changed:
		f.log.Info("password replaced: the next log-in at etcd uses it", "file", f.name)
	case breaks:
		f.log.Warn("the password file cannot be used, the former password stays in use", "error", err)
	}
	return last, nil
}

// readPassword returns the first line of a file.
func readPassword(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("name a file that this user may read (%w)", err)
	}
	password, _, _ := strings.Cut(string(text), "\n")
	if password = strings.TrimSuffix(password, "\r"); password == "" {
		return "", fmt.Errorf("%s begins with an empty line: put the password there", name)
	}
	return password, nil
}
