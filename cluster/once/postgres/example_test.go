package postgres_test

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
)

// A process opens one session, and its effects use the pool that the program has.
func openEffects(ctx context.Context, url string, pool *pgxpool.Pool) (*pgsession.Session, *postgres.Effects, error) {
	session, err := pgsession.Open(ctx, pgsession.Config{URL: url})
	if err != nil {
		return nil, nil, err
	}
	effects, err := postgres.New(session, postgres.Config{DB: pool})
	if err != nil {
		return nil, nil, err
	}
	return session, effects, effects.CreateTable(ctx)
}

func Example() { _ = openEffects }

// A mail is sent once, whichever processes send it. If a process dies in the middle, the outcome is found at the mail
// server and recorded.
func ExampleEffects_Once() {
	send := func(ctx context.Context, effects *postgres.Effects, mail string) error {
		_, err := effects.Once(ctx, "mail/"+mail, func(ctx context.Context, token int64) ([]byte, error) {
			return []byte("message-id"), nil // an error is recorded, and the next call runs the function again
		})
		if unknown, ok := errors.AsType[*once.UnknownError](err); ok {
			tookPlace := false // ask the mail server
			return effects.Resolve(ctx, unknown.Name, unknown.Token, tookPlace, nil)
		}
		return err
	}
	_ = send
}

func pay(ctx context.Context, pool *pgxpool.Pool, effects *postgres.Effects, payment string, amount int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := effects.OnceTx(ctx, tx, "payment/"+payment, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			_, err := tx.Exec(ctx, "update accounts set paid = paid + $1", amount)
			return nil, err
		})
		return err
	})
}

// A payment is booked in the transaction that records it, so its outcome is never unknown.
func ExampleEffects_OnceTx() { _ = pay }
