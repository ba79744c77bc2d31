package processor

import "context"

type tokenKey struct{}

// TokenFrom is the fencing token under which a handler, or OnPark, is called with this ctx: that
// of the term, as the checkpoint knows it. Give it to what the handler writes to, which is to
// refuse a smaller one than it has seen. 0: the context is no handler's.
func TokenFrom(ctx context.Context) int64 {
	token, _ := ctx.Value(tokenKey{}).(int64)
	return token
}

func withToken(ctx context.Context, token int64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}
