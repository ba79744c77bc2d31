package objects

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/objects/hosted"
)

// MaxKey limits the length of a key, in bytes.
const MaxKey = 1024

// KeyHeader is the gRPC header that holds the key of the called object, for clients in any language.
// BinaryKeyHeader is the same for keys that are not printable ASCII; gRPC libraries encode its value.
const (
	KeyHeader       = "goverse-key"
	BinaryKeyHeader = "goverse-key-bin"
)

// Domain is the domain of the google.rpc.ErrorInfo in the details of an error that comes from Goverse and not
// from the called object. Its reason is one of the following.
const (
	Domain = hosted.ErrorDomain

	// ReasonNotStarted comes with UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED. The call was certainly not
	// started.
	ReasonNotStarted = "NOT_STARTED"
	// ReasonMayHaveStarted comes with UNAVAILABLE. The call may have run or may still run.
	ReasonMayHaveStarted = "MAY_HAVE_STARTED"
	// ReasonQueueFull comes with RESOURCE_EXHAUSTED. Too many calls wait for the object; this one was not
	// started.
	ReasonQueueFull = "QUEUE_FULL"
	// ReasonCycle comes with FAILED_PRECONDITION. The call came back to an object that is waiting for it, and
	// was not started.
	ReasonCycle = "CYCLE"
	// ReasonBadCall comes with INVALID_ARGUMENT or UNIMPLEMENTED. There is no such object or method; nothing
	// was started.
	ReasonBadCall = "BAD_CALL"
	// ReasonActivation means that the factory failed, so the call was not started.
	ReasonActivation = "ACTIVATION_FAILED"
	// ReasonPanic comes with INTERNAL. The method panicked.
	ReasonPanic = "PANIC"
)

// ReasonOf returns the reason in the details of a call's error, or "" if the error does not come from Goverse
// itself.
func ReasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return info.GetReason()
		}
	}
	return ""
}

// NotStarted reports whether a call's error shows that the call was certainly not started. The call can then be
// repeated, whatever its method does. For all other errors the call may have run. That includes an exceeded
// deadline without such a reason, and errors of the method itself.
func NotStarted(err error) bool {
	switch ReasonOf(err) {
	case ReasonNotStarted, ReasonQueueFull, ReasonCycle, ReasonBadCall, ReasonActivation:
		return true
	}
	return false
}
