package postgres_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/cluster/objects/state/postgres"
)

// All objects of a process share the store.
func Example() {
	open := func(ctx context.Context, url string) (*postgres.Store, error) {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return nil, err
		}
		if err := postgres.CreateTables(ctx, pool, ""); err != nil {
			return nil, err
		}
		return postgres.New(postgres.Config{DB: pool})
	}
	_ = open
}

// A payment is written in the transaction that saves the balance, once for each request id.
func ExampleStore_InTx() {
	pay := func(ctx context.Context, store *postgres.Store, s *state.State[*wrapperspb.Int64Value], id string,
		amount int64) (balance *wrapperspb.Int64Value, err error) {
		err = store.InTx(ctx, s, func(ctx context.Context, tx pgx.Tx) error {
			balance, err = state.Do(ctx, s, id, func(ctx context.Context) (*wrapperspb.Int64Value, error) {
				_, err := tx.Exec(ctx, "insert into payments (account, amount) values ($1, $2)", s.Ref().Key, amount)
				s.Value().Value += amount
				return wrapperspb.Int64(s.Value().Value), err
			})
			return err
		})
		return balance, err
	}
	_ = pay
}
