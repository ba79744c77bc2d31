package processor

import "context"

type tokenKey struct{}

// TokenFrom returns the fencing token under which ctx's handler or OnPark is called: the token of the term, as
// stored in the checkpoint. Pass it to the systems that the handler writes to; they must refuse tokens smaller
// than the largest they have seen. It returns 0 if ctx is not a handler's context.
func TokenFrom(ctx context.Context) int64 {
	token, _ := ctx.Value(tokenKey{}).(int64)
	return token
}

func withToken(ctx context.Context, token int64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}
