package objects

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// MaxKey is the longest key, in bytes.
const MaxKey = 1024

// KeyHeader is the gRPC header with the key of the object that is called, for clients of any language.
// BinaryKeyHeader is the same for keys that are not printable ASCII: the libraries of gRPC encode its value.
const (
	KeyHeader       = "goverse-key"
	BinaryKeyHeader = "goverse-key-bin"
)

// Domain is that of the google.rpc.ErrorInfo in the details of errors that come from Goverse, and not from the
// object that was called; its reason is one of the following.
const (
	Domain = "goverse"

	// ReasonNotStarted: UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED, and the call has certainly not been started.
	ReasonNotStarted = "NOT_STARTED"
	// ReasonMayHaveStarted: UNAVAILABLE, and the call may have run, or run still.
	ReasonMayHaveStarted = "MAY_HAVE_STARTED"
	// ReasonQueueFull: RESOURCE_EXHAUSTED: too many calls wait for the object; this one was not started.
	ReasonQueueFull = "QUEUE_FULL"
	// ReasonCycle: FAILED_PRECONDITION: the call came back to an object whose turn waits for it; it was not started.
	ReasonCycle = "CYCLE"
	// ReasonBadCall: INVALID_ARGUMENT or UNIMPLEMENTED: there is no such object or method; nothing was started.
	ReasonBadCall = "BAD_CALL"
	// ReasonActivation: the factory failed, so the call was not started.
	ReasonActivation = "ACTIVATION_FAILED"
	// ReasonPanic: INTERNAL: the method panicked.
	ReasonPanic = "PANIC"
)

// Error is the error of a call that Goverse itself answers, as a gRPC status with a google.rpc.ErrorInfo.
func Error(code codes.Code, reason, message string) error {
	s, err := status.New(code, message).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: Domain})
	if err != nil { // a code of OK
		return status.Error(codes.Internal, message)
	}
	return s.Err()
}

// ReasonOf is the reason in the details of a call's error, "" if it does not come from Goverse itself.
func ReasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return info.GetReason()
		}
	}
	return ""
}

// NotStarted reports whether the error of a call says that it has certainly not been started, so that it can be
// repeated whatever the method does. Of any other error this is not known: not of a deadline that has passed, unless
// its reason says so, and not of an error of the method's own.
func NotStarted(err error) bool {
	switch ReasonOf(err) {
	case ReasonNotStarted, ReasonQueueFull, ReasonCycle, ReasonBadCall, ReasonActivation:
		return true
	}
	return false
}
