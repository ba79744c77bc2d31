package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
)

// view is one table of the read model: what an event changes in it, and how it is shown.
type view struct {
	name   string
	change string               // SQL
	args   func(purchase) []any // its arguments
	show   string               // SQL
}

var views = []view{
	{
		name: "totals",
		change: `insert into view_totals as v values ($1, $2, $2::bigint * $3::bigint)
on conflict (customer) do update set pieces = v.pieces + excluded.pieces, cents = v.cents + excluded.cents`,
		args: func(p purchase) []any { return []any{p.Customer, p.sign() * p.Pieces, p.Cents} },
		show: "select * from view_totals order by customer",
	},
	{
		name: "products",
		change: `insert into view_products as v values ($1, $2)
on conflict (product) do update set pieces = v.pieces + excluded.pieces`,
		args: func(p purchase) []any { return []any{p.Product, p.sign() * p.Pieces} },
		show: "select * from view_products order by pieces desc, product limit 10",
	},
	{
		name: "latest", // what a customer did last: here the order counts
		change: `insert into view_latest values ($1, $2, $3)
on conflict (customer) do update set kind = excluded.kind, product = excluded.product`,
		args: func(p purchase) []any { return []any{p.Customer, p.Kind, p.Product} },
		show: "select * from view_latest order by customer",
	},
}

// table is where the view lies.
func (v view) table() string { return "view_" + v.name }

// processor is the name of the view's processor, checkpoint and election.
func (v view) processor() string { return "views/" + v.name }

// find is the view of that name.
func find(name string) (view, error) {
	var names []string
	for _, v := range views {
		if v.name == name {
			return v, nil
		}
		names = append(names, v.name)
	}
	return view{}, fmt.Errorf("no view %q; there are %s", name, strings.Join(names, ", "))
}

// changeTimeout is for one event, and for waiting until nobody else has its rows locked.
const changeTimeout = 5 * time.Second

// handle puts one event into the view, in the transaction that moves the view's checkpoint:
// no matter which copy dies when, each event is in it once.
func (v view) handle(ctx context.Context, e processor.Event[[]byte]) error {
	p, err := decode(e.Value)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err = postgres.Tx(ctx).Exec(ctx, v.change, v.args(p)...)
	return blame(err)
}

// blame distinguishes what is wrong with an event from what is wrong with the database.
func blame(err error) error {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		return fmt.Errorf("%w: %w", processor.ErrUnavailable, err) // the connection
	case slices.Contains([]string{"22", "23"}, refused.Code[:2]): // such data, or such a row, is not possible
		return fmt.Errorf("%w: %w", processor.ErrPoison, err)
	}
	return err
}

// rebuild empties the view and has its processor begin with the first event, both at once. To
// readers it grows again from nothing; where that will not do, build another one under
// another name and switch.
func (v view) rebuild(ctx context.Context, db *pgxpool.Pool) error {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	// On the connection that has the transaction, so the checkpoint is written in it.
	checkpoints, err := postgres.New(postgres.Config{DB: conn.Conn()})
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// In the order in which the processor takes them, or the two might wait for each other.
		if _, err := tx.Exec(ctx, "truncate "+v.table()); err != nil {
			return err
		}
		return checkpoints.Rewind(ctx, v.processor(), "") // the processor soon looks, see serve
	})
}
