package connect

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Explain returns err, the error of a request to etcd, with its cause and remedy: etcd refuses the user (needs
// names the necessary rights: "READ on ..."), or another server answered, or none did. In the last case it
// examines the addresses, even if ctx has ended, and blocks for up to two seconds per address. It returns other
// errors, those of this package and nil unchanged.
func (c Config) Explain(ctx context.Context, err error, needs string) error {
	return c.withDefaults().explain(ctx, err, needs)
}

func (c Config) explain(ctx context.Context, err error, needs string) error {
	why := unknownCause
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
		p := c.newProblem(notEtcd, "", err)
		p.otherAddresses = len(c.addresses()) > 1 // one of them gave this answer
		return p
	case isUnanswered(err):
		return c.diagnoseAddresses(ctx, err)
	default:
		return err
	}
	p := c.newProblem(why, "", err)
	p.neededRights = needs
	return p
}

// LacksPermission reports whether err is etcd's refusal because the user lacks a right or there is no user.
func LacksPermission(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty)
}

func isProblem(err error) bool {
	_, ok := errors.AsType[*problem](err)
	return ok
}

// isUnanswered reports whether a request ended without an answer.
func isUnanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || hasCode(err, codes.Unavailable, codes.DeadlineExceeded)
}

// hasCode reports whether err is an answer with one of these codes, from etcd or another server.
func hasCode(err error, wanted ...codes.Code) bool {
	var answer interface{ GRPCStatus() *status.Status }
	if errors.As(err, &answer) {
		return slices.Contains(wanted, answer.GRPCStatus().Code())
	}
	etcd, ok := errors.AsType[rpctypes.EtcdError](err)
	return ok && slices.Contains(wanted, etcd.Code())
}
