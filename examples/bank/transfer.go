package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/cluster/objects/state/postgres"
	"github.com/goverse/goverse/examples/bank/bankpb"
)

// transfer implements the Transfer service for one transfer. Its object's key is the id of the transfer.
type transfer struct {
	bankpb.UnimplementedTransferServer
	object *objects.Object
	store  *postgres.Store
	state  *state.State[*bankpb.TransferState]
}

// registerTransfers hosts the transfers. Each is called once or twice, so it stays in memory only briefly.
func registerTransfers(c *cluster.Cluster, store *postgres.Store) {
	objects.Register(c, bankpb.RegisterTransferServer,
		func(ctx context.Context, o *objects.Object) (bankpb.TransferServer, error) {
			s, err := state.Load(ctx, store, o, &bankpb.TransferState{})
			return &transfer{object: o, store: store, state: s}, err
		}, objects.Idempotent(), objects.IdleAfter(idleAfter))
}

// Run implements bankpb.TransferServer.
func (t *transfer) Run(ctx context.Context, req *bankpb.RunRequest) (*bankpb.RunResponse, error) {
	if t.state.Exists() {
		if !proto.Equal(req, t.state.Value().GetIntent()) {
			return nil, status.Error(codes.AlreadyExists, "there is another transfer with this id")
		}
		return t.finishTransfer(ctx)
	}
	if err := t.checkRequest(req); err != nil {
		return nil, err
	}
	outcome, err := t.initialOutcome(ctx, req.GetTo())
	if err != nil {
		return nil, status.Error(codes.Unavailable, "nothing was recorded: "+err.Error())
	}
	if err := t.save(ctx, &bankpb.TransferState{Intent: req, Outcome: outcome}); err != nil {
		return nil, err
	}
	return t.finishTransfer(ctx)
}

// checkRequest refuses a transfer that could never be carried out, so every recorded transfer can be completed.
func (t *transfer) checkRequest(req *bankpb.RunRequest) error {
	if err := state.CheckRequestID(t.object.Key()); err != nil {
		return err
	}
	for _, name := range []string{req.GetFrom(), req.GetTo()} {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if req.GetFrom() == req.GetTo() {
		return status.Error(codes.InvalidArgument, "a transfer is between two accounts")
	}
	return checkAmount(req.GetAmount(), 1)
}

// initialOutcome returns the initial outcome of a transfer to the named account: UNFINISHED, or UNKNOWN_ACCOUNT.
// The caller records it and never asks again: reads are not fenced, so a former owner of the account could
// still answer, after the withdrawal, that the account does not exist.
func (t *transfer) initialOutcome(ctx context.Context, name string) (bankpb.Outcome, error) {
	_, err := bankpb.NewAccountClient(t.object.At(name)).Balance(ctx, &bankpb.BalanceRequest{})
	if status.Code(err) == codes.NotFound {
		return bankpb.Outcome_UNKNOWN_ACCOUNT, nil
	}
	return bankpb.Outcome_UNFINISHED, err
}

// Resume implements bankpb.TransferServer.
func (t *transfer) Resume(ctx context.Context, _ *bankpb.ResumeRequest) (*bankpb.RunResponse, error) {
	if !t.state.Exists() {
		return nil, status.Error(codes.NotFound, "no such transfer was recorded")
	}
	return t.finishTransfer(ctx)
}

// finishTransfer carries the transfer out if that is not done yet, and records the outcome. It may continue at any
// step, because the accounts store a receipt for each half. It returns errors of its own, without the status
// details of the calls it makes: those details may report that a call was not started, which does not hold for
// this one.
func (t *transfer) finishTransfer(ctx context.Context) (*bankpb.RunResponse, error) {
	now := t.state.Value()
	if now.GetOutcome() == bankpb.Outcome_UNFINISHED {
		outcome, err := t.moveMoney(ctx, now.GetIntent())
		if err == nil {
			err = t.save(ctx, &bankpb.TransferState{Intent: now.GetIntent(), Outcome: outcome})
		}
		if err != nil {
			return nil, status.Error(codes.Unavailable, "the transfer is recorded, and not finished yet: "+err.Error())
		}
	}
	return &bankpb.RunResponse{Outcome: now.GetOutcome()}, nil
}

// moveMoney withdraws and deposits, both under the transfer's id. The deposit cannot be refused: the account existed
// when the intent was recorded, and accounts are never closed. So no withdrawal ever has to be undone.
func (t *transfer) moveMoney(ctx context.Context, intent *bankpb.RunRequest) (bankpb.Outcome, error) {
	ctx = state.WithRequestID(ctx, t.object.Key())
	receipt, err := bankpb.NewAccountClient(t.object.At(intent.GetFrom())).
		Withdraw(ctx, &bankpb.WithdrawRequest{Amount: intent.GetAmount()})
	if err != nil || receipt.GetOutcome() != bankpb.Outcome_DONE {
		return receipt.GetOutcome(), err
	}
	receipt, err = bankpb.NewAccountClient(t.object.At(intent.GetTo())).
		Deposit(ctx, &bankpb.DepositRequest{Amount: intent.GetAmount()})
	if err == nil && receipt.GetOutcome() != bankpb.Outcome_DONE {
		err = status.Errorf(codes.Internal, "the deposit was refused: %v", receipt.GetOutcome())
	}
	return receipt.GetOutcome(), err
}

// save stores the state and, in the same transaction, adds the transfer to the unfinished ones or removes it.
func (t *transfer) save(ctx context.Context, next *bankpb.TransferState) error {
	mark := "insert into bank_unfinished (transfer) values ($1)"
	if next.GetOutcome() != bankpb.Outcome_UNFINISHED {
		mark = "delete from bank_unfinished where transfer = $1"
	}
	return t.store.InTx(ctx, t.state, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, mark, t.object.Key()); err != nil {
			return err
		}
		value := t.state.Value()
		proto.Reset(value)
		proto.Merge(value, next)
		return t.state.Save(ctx)
	})
}
