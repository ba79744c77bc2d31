package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// placeOrder writes an order and its event in the caller's transaction: either both are committed, or neither.
func placeOrder(ctx context.Context, tx pgx.Tx, customer string, cents int64) error {
	var id int64
	if err := tx.QueryRow(ctx, "insert into orders (customer, cents) values ($1, $2) returning id", customer,
		cents).Scan(&id); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "insert into outbox (body) values (jsonb_build_object('order', $1::bigint, 'customer', "+
		"$2::text, 'cents', $3::bigint))", id, customer, cents)
	return err
}

// errChanged makes placeOrders roll a transaction back, as if the customer had cancelled the order.
var errChanged = errors.New("the order is not placed after all")

// placeOrders places n orders; about a fifth of them are rolled back.
func placeOrders(ctx context.Context, db *pgxpool.Pool, n int) error {
	placed := 0
	for i := range n {
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if err := placeOrder(ctx, tx, fmt.Sprintf("customer %d", i%7), rand.Int64N(10000)); err != nil {
				return err
			}
			if rand.IntN(5) == 0 {
				return errChanged
			}
			return nil
		})
		switch {
		case err == nil:
			placed++
		case !errors.Is(err, errChanged):
			return err
		}
	}
	fmt.Printf("placed %d orders, rolled %d back\n", placed, n-placed)
	return nil
}
