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

// view is one table of the read model.
type view struct {
	name   string
	change string               // SQL that applies an event
	args   func(purchase) []any // its arguments
	show   string               // SQL that selects the rows to show
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
		name: "latest", // a customer's last action; here the order of events matters
		change: `insert into view_latest values ($1, $2, $3)
on conflict (customer) do update set kind = excluded.kind, product = excluded.product`,
		args: func(p purchase) []any { return []any{p.Customer, p.Kind, p.Product} },
		show: "select * from view_latest order by customer",
	},
}

// table returns the name of the view's table.
func (v view) table() string { return "view_" + v.name }

// processor returns the name of the view's processor, checkpoint and election.
func (v view) processor() string { return "views/" + v.name }

// findView returns the view with the given name.
func findView(name string) (view, error) {
	var names []string
	for _, v := range views {
		if v.name == name {
			return v, nil
		}
		names = append(names, v.name)
	}
	return view{}, fmt.Errorf("no view %q; there are %s", name, strings.Join(names, ", "))
}

// changeTimeout limits the handling of one event, including the wait for locked rows.
const changeTimeout = 5 * time.Second

// handle applies one event to the view, in the transaction that advances the view's checkpoint. So each event
// takes effect once, no matter which copy dies and when.
func (v view) handle(ctx context.Context, e processor.Event[[]byte]) error {
	p, err := decode(e.Value)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err = postgres.Tx(ctx).Exec(ctx, v.change, v.args(p)...)
	return classifyError(err)
}

// classifyError classifies a database error. It wraps ErrPoison around a fault of the event, and ErrUnavailable around
// a broken connection; other errors stay as they are.
func classifyError(err error) error {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		return fmt.Errorf("%w: %w", processor.ErrUnavailable, err) // the connection failed
	case slices.Contains([]string{"22", "23"}, refused.Code[:2]): // the event's data violate a type or a constraint
		return fmt.Errorf("%w: %w", processor.ErrPoison, err)
	}
	return err
}

// rebuild empties the view and makes its processor start again with the first event, in one transaction.
// Readers see the view grow again from nothing. If that is not acceptable, build a second view under another
// name and switch to it.
func (v view) rebuild(ctx context.Context, db *pgxpool.Pool) error {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	// checkpoints uses the connection of the transaction, so Rewind takes part in it.
	checkpoints, err := postgres.New(postgres.Config{DB: conn.Conn()})
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Lock the tables in the processor's order; otherwise the two could deadlock.
		if _, err := tx.Exec(ctx, "truncate "+v.table()); err != nil {
			return err
		}
		return checkpoints.Rewind(ctx, v.processor(), "") // the processor soon notices, see CheckInterval in runProcessors
	})
}
