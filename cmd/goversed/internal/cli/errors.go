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
	ExitFailure = 1 // it was tried, and failed
	ExitUsage   = 2 // it was not tried: the command line is wrong
)

// UsageError is a command line that cannot be carried out.
type UsageError struct {
	Err     error
	Command string // whose help tells more, as in "goversed node"
}

// Error is the message with a pointer to the help.
func (e *UsageError) Error() string {
	return fmt.Sprintf("%v; see %s --help", e.Err, e.Command)
}

// Unwrap is what is wrong.
func (e *UsageError) Unwrap() error { return e.Err }

// Usage makes a UsageError; nil stays nil.
func Usage(command string, err error) error {
	if err == nil {
		return nil
	}
	if usage, ok := errors.AsType[*UsageError](err); ok {
		return usage
	}
	return &UsageError{Err: err, Command: command}
}

// BadValue says how to write a value that could not be read, where err tells: a time
// has a unit. given is the value as it was given, with its flag or variable.
func BadValue(err error, given string) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	how := map[string]string{"duration": "it like 10s", "int": "a whole number, like 3",
		"bool": "true or false"}[bad.GetFlag().Value.Type()]
	if how == "" { // others say so themselves
		return err
	}
	return fmt.Errorf("%s: write %s", given, how)
}

// BadFlag is BadValue for a flag on the command line of cmd, and says of a flag of cmd's that was
// written with one dash that it has two.
func BadFlag(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag, value := bad.GetFlag(), bad.GetValue()
		between := " "
		switch {
		case flag.Value.Type() == "bool": // what stands apart would not be its value
			between = "="
		case value == "":
			value = `""`
		}
		return BadValue(err, "--"+flag.Name+between+value)
	}
	if none, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, _, _ := strings.Cut(none.GetSpecifiedShortnames(), "=")
		if cmd.Flags().Lookup(name) != nil {
			return fmt.Errorf("-%s: write it with two dashes, as --%[1]s", name)
		}
	}
	return err
}

// CodeError is the end of a command with an exit code of its own: of a program that it ran,
// for example. Without Err nothing is reported: all is said.
type CodeError struct {
	Code int
	Err  error
}

// Error is the message, "" if there is none.
func (e *CodeError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap is what went wrong, or nil.
func (e *CodeError) Unwrap() error { return e.Err }

// ExitCode is the exit code for an error of a command.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if _, ok := errors.AsType[*UsageError](err); ok {
		return ExitUsage
	}
	if code, ok := errors.AsType[*CodeError](err); ok {
		return code.Code
	}
	return ExitFailure
}

// Report writes err in one line, if there is one, and it says anything.
func Report(w io.Writer, program string, err error) {
	if code, ok := errors.AsType[*CodeError](err); ok && code.Err == nil {
		return
	}
	if err != nil {
		_, _ = fmt.Fprintf(w, "%s: %s\n", program, OneLine(err))
	}
}

// OneLine is err's message without line breaks: joined errors have a line each,
// and what an operator greps for must be in one.
func OneLine(err error) string {
	fields := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return strings.Join(fields, ": ")
}
