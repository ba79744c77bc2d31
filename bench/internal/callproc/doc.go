// Package callproc has one process call another one: objects of Goverse, and what they are measured beside. Each
// of the two is this very binary, started again, and does nothing else, so that the heap and the collector of one
// arm of a measurement are not those of another.
//
// Each kind of process has a function that starts it. One that calls makes the calls that a [Load] describes, when it
// is asked to, and returns what they took.
//
// # What is not promised
//
// That the processes are alone: they share the machine's cores with each other.
package callproc

import (
	"context"

	"github.com/goverse/goverse/bench/internal/reexec"
)

// The first arguments that make the binary one of these processes; see [Serve].
const (
	answerGRPCArg       = "answer-grpc"
	answerProtoactorArg = "answer-protoactor"
	answerObjectsArg    = "answer-objects"
	callGRPCArg         = "call-grpc"
	callProtoactorArg   = "call-protoactor"
	callObjectsArg      = "call-objects"
)

// Serve is what the started process does: it reports whether args, without the program's name, ask for anything
// of this package, does that until standard input closes, and returns its error.
func Serve(args []string) (asked bool, err error) {
	if len(args) == 0 {
		return false, nil
	}
	role, ok := map[string]struct {
		args  int
		serve func(ctx context.Context, args []string) error
	}{
		answerGRPCArg:       {0, answerGRPC},
		answerProtoactorArg: {0, answerProtoactor},
		answerObjectsArg:    {1, answerObjects},
		callGRPCArg:         {1, callGRPC},
		callProtoactorArg:   {1, callProtoactor},
		callObjectsArg:      {2, callObjects},
	}[args[0]]
	if !ok || len(args)-1 != role.args {
		return false, nil
	}
	return true, role.serve(reexec.UntilParentEnds(), args[1:])
}
