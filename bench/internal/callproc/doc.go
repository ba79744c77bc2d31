// Package callproc measures calls from one process to another: of objects of Goverse, and of the alternatives
// that they are compared with. Each process is this very binary, started again, and has no other work. So no
// arm of a measurement shares its heap or its garbage collector with another.
//
// Each kind of process has a function that starts it. A calling process makes the calls described by a [Load]
// on request, and returns the time they took.
//
// # What is not promised
//
// The processes do not have the cores to themselves: they share them with each other.
package callproc

import (
	"context"

	"github.com/goverse/goverse/bench/internal/reexec"
)

// These first arguments make the binary one of these processes; see [Serve].
const (
	answerGRPCArg       = "answer-grpc"
	answerProtoactorArg = "answer-protoactor"
	answerObjectsArg    = "answer-objects"
	callGRPCArg         = "call-grpc"
	callProtoactorArg   = "call-protoactor"
	callObjectsArg      = "call-objects"
)

// Serve runs a process of this package. It reports whether args, without the program's name, name one; if so,
// it serves until standard input closes and returns the error.
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
