package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes of goversed.
const (
	ExitOK      = 0
	ExitFailure = 1 // the command failed
	ExitUsage   = 2 // the command did not start, because the command line is wrong
)

// UsageError is an error in the command line.
type UsageError struct {
	Err     error
	Command string // the command with the relevant help, as in "goversed node"
}

// Error returns the message with a pointer to the help.
func (e *UsageError) Error() string {
	return fmt.Sprintf("%v; see %s --help", e.Err, e.Command)
}

// Unwrap returns the error without that pointer.
func (e *UsageError) Unwrap() error { return e.Err }

// WrapUsage wraps err in a UsageError, unless it is nil or has one already.
func WrapUsage(command string, err error) error {
	if err == nil {
		return nil
	}
	if usage, ok := errors.AsType[*UsageError](err); ok {
		return usage
	}
	return &UsageError{Err: err, Command: command}
}

// ExplainBadValue rewrites the error of a value that could not be parsed, so that it shows the right form: a duration
// needs a unit, for example. Given is the value as given, with its flag or variable.
func ExplainBadValue(err error, given string) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	how := map[string]string{"duration": "it like 10s", "int": "a whole number, like 3",
		"bool": "true or false"}[bad.GetFlag().Value.Type()]
	if how == "" { // errors of other types show it already
		return err
	}
	return fmt.Errorf("%s: write %s", given, how)
}

// ExplainBadFlag is ExplainBadValue for a flag on the command line of cmd. It also points out a flag of cmd that was
// written with one dash instead of two, and the flag that was probably meant by an unknown one.
func ExplainBadFlag(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag, value := bad.GetFlag(), bad.GetValue()
		between := " "
		switch {
		case flag.Value.Type() == "bool": // a bool takes no separate argument
			between = "="
		case value == "":
			value = `""`
		}
		return ExplainBadValue(err, "--"+flag.Name+between+value)
	}
	if none, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, _, _ := strings.Cut(none.GetSpecifiedShortnames(), "=")
		if cmd.Flags().Lookup(name) != nil {
			return fmt.Errorf("-%s: write it with two dashes, as --%[1]s", name)
		}
		if name == "" {
			return explainUnknownFlag(cmd, none)
		}
	}
	return err
}

// ExitCodeError ends a command with a particular exit code, such as that of a program it ran. Without Err nothing
// is printed, because everything was reported already.
type ExitCodeError struct {
	Code int
	Err  error
}

// Error returns the message, "" if there is none.
func (e *ExitCodeError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns Err, which may be nil.
func (e *ExitCodeError) Unwrap() error { return e.Err }

// ExitCode returns the exit code for an error of a command.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if _, ok := errors.AsType[*UsageError](err); ok {
		return ExitUsage
	}
	if code, ok := errors.AsType[*ExitCodeError](err); ok {
		return code.Code
	}
	return ExitFailure
}

// PrintError writes err in one line. It writes nothing if err is nil or an ExitCodeError without Err.
func PrintError(w io.Writer, program string, err error) {
	if code, ok := errors.AsType[*ExitCodeError](err); ok && code.Err == nil {
		return
	}
	if err != nil {
		_, _ = fmt.Fprintf(w, "%s: %s\n", program, OneLine(err))
	}
}

// OneLine returns the message of err without line breaks. Joined errors have one line each, but operators
// search for messages line by line.
func OneLine(err error) string {
	fields := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return strings.Join(fields, ": ")
}
