package session_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/session"
)

// Work whose context has ended can tell that its node lost the session, and the reason.
func Example() {
	ctx, end := context.WithCancelCause(context.Background()) // such as the context of a term
	end(&session.LostError{Reason: session.ReasonExpired})

	err := context.Cause(ctx)
	fmt.Println(errors.Is(err, session.ErrLost), session.ReasonOf(err))
	// Output: true expired
}
