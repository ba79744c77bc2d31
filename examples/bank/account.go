package main

import (
	"context"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/cluster/objects/state/postgres"
	"github.com/goverse/goverse/examples/bank/bankpb"
)

// maxAmount limits an opening balance and the amount of a transfer, so that a balance overflows only after millions
// of them. longest limits the bytes in an account's name.
const maxAmount, longest = 1e12, 100

func checkAmount(amount, least int64) error {
	if amount < least || amount > maxAmount {
		return status.Errorf(codes.InvalidArgument, "an amount is from %d to %d", least, int64(maxAmount))
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > longest || strings.ToValidUTF8(name, "") != name ||
		strings.ContainsFunc(name, unicode.IsControl) {
		return status.Errorf(codes.InvalidArgument, "an account's name is one line, of at most %d bytes", longest)
	}
	return nil
}

// account implements the Account service for one account, named by its object's key.
type account struct {
	bankpb.UnimplementedAccountServer
	object *objects.Object
	store  *postgres.Store
	state  *state.State[*bankpb.AccountState]
}

// registerAccounts hosts the accounts. Calls that change an account have request ids, so any call may be
// repeated.
func registerAccounts(c *cluster.Cluster, store *postgres.Store) {
	objects.Register(c, bankpb.RegisterAccountServer,
		func(ctx context.Context, o *objects.Object) (bankpb.AccountServer, error) {
			s, err := state.Load(ctx, store, o, &bankpb.AccountState{})
			return &account{object: o, store: store, state: s}, err
		}, objects.Idempotent())
}

// Open implements bankpb.AccountServer.
func (a *account) Open(ctx context.Context, req *bankpb.OpenRequest) (*bankpb.Receipt, error) {
	if err := checkName(a.object.Key()); err != nil {
		return nil, err
	}
	if err := checkAmount(req.GetBalance(), 0); err != nil {
		return nil, err
	}
	return a.applyOnce(ctx, req.GetBalance(), func() bankpb.Outcome {
		if a.state.Exists() {
			return bankpb.Outcome_ALREADY_OPEN
		}
		return bankpb.Outcome_DONE
	})
}

// Balance implements bankpb.AccountServer.
func (a *account) Balance(context.Context, *bankpb.BalanceRequest) (*bankpb.BalanceResponse, error) {
	if !a.state.Exists() {
		return nil, status.Error(codes.NotFound, "there is no such account")
	}
	return &bankpb.BalanceResponse{Balance: a.state.Value().GetBalance()}, nil
}

// Withdraw implements bankpb.AccountServer.
func (a *account) Withdraw(ctx context.Context, req *bankpb.WithdrawRequest) (*bankpb.Receipt, error) {
	if err := checkAmount(req.GetAmount(), 1); err != nil {
		return nil, err
	}
	return a.applyOnce(ctx, -req.GetAmount(), func() bankpb.Outcome {
		switch {
		case !a.state.Exists():
			return bankpb.Outcome_UNKNOWN_ACCOUNT
		case a.state.Value().GetBalance() < req.GetAmount():
			return bankpb.Outcome_INSUFFICIENT_FUNDS
		}
		return bankpb.Outcome_DONE
	})
}

// Deposit implements bankpb.AccountServer.
func (a *account) Deposit(ctx context.Context, req *bankpb.DepositRequest) (*bankpb.Receipt, error) {
	if err := checkAmount(req.GetAmount(), 1); err != nil {
		return nil, err
	}
	return a.applyOnce(ctx, req.GetAmount(), func() bankpb.Outcome {
		if !a.state.Exists() {
			return bankpb.Outcome_UNKNOWN_ACCOUNT
		}
		return bankpb.Outcome_DONE
	})
}

// applyOnce applies change to the balance if decide returns DONE. It does so once for each request id: the balance,
// the row of the ledger and the receipt are stored in one transaction. A refusal is stored as a receipt as
// well, not returned as an error, because an error would not be remembered: a delayed call of a killed node
// could then withdraw money after its transfer was refused.
func (a *account) applyOnce(ctx context.Context, change int64, decide func() bankpb.Outcome) (*bankpb.Receipt, error) {
	id, ok := state.RequestID(ctx)
	if !ok {
		return nil, status.Error(codes.InvalidArgument, "the call needs the header "+state.RequestIDHeader)
	}
	var receipt *bankpb.Receipt
	err := a.store.InTx(ctx, a.state, func(ctx context.Context, tx pgx.Tx) (err error) {
		receipt, err = state.Do(ctx, a.state, id, func(ctx context.Context) (*bankpb.Receipt, error) {
			outcome := decide()
			switch {
			case outcome == bankpb.Outcome_DONE:
				a.state.Value().Balance += change
				if _, err := tx.Exec(ctx, "insert into bank_ledger (request, account, amount) values ($1, $2, $3)", id,
					a.object.Key(), change); err != nil {
					return nil, err
				}
			case !a.state.Exists(): // storing the receipt must not create the account
				if err := a.state.Delete(ctx); err != nil {
					return nil, err
				}
			}
			return &bankpb.Receipt{Outcome: outcome}, nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return receipt, nil
}
