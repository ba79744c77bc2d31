package link

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// ErrNotSent is matched by errors of calls that were certainly not started: the node could not be reached, or
	// the link broke before the call was sent. It is safe to make the call again, there or elsewhere.
	ErrNotSent = errors.New("link: the call was not sent; make it again")

	// ErrLost is matched by errors of calls whose link broke after they were sent, and before the reply: they may
	// have been started, and even have ended well.
	ErrLost = errors.New("link: the connection was lost during the call, which may have been started; " +
		"make it again only if that does no harm")

	// ErrRefused is matched by errors of calls that were certainly not started because the node refuses the link
	// itself: it belongs to another cluster, does not know the service, or does not accept the credentials. The
	// gRPC status with its reason is in the error's chain.
	ErrRefused = errors.New("link: the node refuses calls from here; check the address, the prefix and the credentials")

	// ErrClosed is returned for calls on a pool that was closed, before the call or during it. A call during which
	// the pool was closed may have been started.
	ErrClosed = errors.New("link: the pool is closed")
)

// errGone says that a link has ended and takes no calls; the next one is to be opened.
var errGone = errors.New("link: ended")

// refuses reports whether a link that ended with err was refused, so that opening it again is of no use until
// something is set right.
func refuses(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return false
}
