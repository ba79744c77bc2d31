package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/processor"
)

// The kinds of events.
const (
	bought   = "bought"
	returned = "returned"
)

// purchase is the body of an event.
type purchase struct {
	Kind     string `json:"kind"`
	Customer string `json:"customer"`
	Product  string `json:"product"`
	Pieces   int64  `json:"pieces"`
	Cents    int64  `json:"cents"` // of each piece
}

// decode parses a body. Its errors match processor.ErrPoison, because a malformed body does not improve with a
// retry.
func decode(body []byte) (p purchase, err error) {
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	switch err := strict.Decode(&p); {
	case err != nil:
		return p, fmt.Errorf("%w: %w", processor.ErrPoison, err)
	case p.Kind != bought && p.Kind != returned:
		return p, fmt.Errorf("%w: kind %q is not known", processor.ErrPoison, p.Kind)
	case p.Customer == "" || p.Product == "" || p.Pieces <= 0 || p.Cents < 0:
		return p, fmt.Errorf("%w: a customer, a product, pieces or cents are missing", processor.ErrPoison)
	}
	return p, nil
}

// sign returns -1 for a return and 1 for a purchase.
func (p purchase) sign() int64 {
	if p.Kind == returned {
		return -1
	}
	return 1
}

// addPurchase writes an event in the caller's transaction.
func addPurchase(ctx context.Context, tx pgx.Tx, p purchase) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "insert into events (body) values ($1)", body)
	return err
}

// somePurchase returns a random event.
func somePurchase() purchase {
	products := []string{"apples", "bread", "coffee", "tea", "wine"}
	p := purchase{bought, fmt.Sprintf("customer %d", rand.IntN(10)), products[rand.IntN(len(products))], 1 +
		rand.Int64N(5), rand.Int64N(1000)}
	if rand.IntN(10) == 0 {
		p.Kind = returned
	}
	return p
}

// writePurchases writes n events, each in a transaction of its own.
func writePurchases(ctx context.Context, db *pgxpool.Pool, n int) error {
	for range n {
		if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return addPurchase(ctx, tx, somePurchase()) }); err != nil {
			return err
		}
	}
	return nil
}
