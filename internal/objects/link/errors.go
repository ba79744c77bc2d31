package link

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// ErrNotSent is matched by the errors of calls that were certainly not started, because the node could not
	// be reached or the link broke before the call was sent. It is safe to make the call again, there or
	// elsewhere.
	ErrNotSent = errors.New("link: the call was not sent; make it again")

	// ErrLost is matched by the errors of calls if their link broke after they were sent and before the reply.
	// They may have been started, and may even have succeeded.
	ErrLost = errors.New("link: the connection was lost during the call, which may have been started; " +
		"make it again only if that does no harm")

	// ErrRefused is matched by the errors of calls that were certainly not started because the node refuses the
	// link itself: it belongs to another cluster, does not know the service, or does not accept the
	// credentials. The error wraps the gRPC status with the reason.
	ErrRefused = errors.New("link: the node refuses calls from here; check the address, the prefix and the credentials")

	// ErrClosed is returned for calls on a pool that is closed, or is closed during the call. In the latter
	// case the call may have been started.
	ErrClosed = errors.New("link: the pool is closed")
)

// errGone is returned by a link that has ended and accepts no calls. The caller opens the next link.
var errGone = errors.New("link: ended")

// isRefusal reports whether a link that ended with err was refused. Opening it again is then useless until an
// operator corrects the cause.
func isRefusal(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return false
}
