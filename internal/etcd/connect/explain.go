package connect

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Explain is err, with which a request to etcd failed, with its cause and remedy: that etcd refuses the user,
// which needs these rights ("READ on ..."), that another server answered, or that none did. Then it looks what
// is there, also where ctx has ended, and blocks for two seconds per address at most. Other errors, those of
// this package and nil it returns as they are.
func (c Config) Explain(ctx context.Context, err error, needs string) error {
	return c.withDefaults().explain(ctx, err, needs)
}

func (c Config) explain(ctx context.Context, err error, needs string) error {
	why := unknown
	switch {
	case err == nil:
		return nil
	case isProblem(err):
		return err
	case errors.Is(err, rpctypes.ErrUserEmpty):
		why = userMissing
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		why = permissionMissing
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrInvalidAuthToken):
		why = userRefused
	case hasCode(err, codes.Unimplemented):
		p := c.problem(notEtcd, "", err)
		p.passes = len(c.addresses()) > 1 // one of them answered so
		return p
	case unanswered(err):
		return c.look(ctx, err)
	default:
		return err
	}
	p := c.problem(why, "", err)
	p.needs = needs
	return p
}

// Refuses reports whether err is etcd's refusal of what a user may not do, or that there is no user.
func Refuses(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty)
}

func isProblem(err error) bool {
	_, ok := errors.AsType[*problem](err)
	return ok
}

// unanswered reports whether a request ended without the answer that it was sent for.
func unanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || hasCode(err, codes.Unavailable, codes.DeadlineExceeded)
}

// hasCode reports whether err is an answer with one of these codes, from etcd or from what else there is.
func hasCode(err error, wanted ...codes.Code) bool {
	var answer interface{ GRPCStatus() *status.Status }
	if errors.As(err, &answer) {
		return slices.Contains(wanted, answer.GRPCStatus().Code())
	}
	etcd, ok := errors.AsType[rpctypes.EtcdError](err)
	return ok && slices.Contains(wanted, etcd.Code())
}
