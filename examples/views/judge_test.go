//go:build unix

package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/etcdtest"
)

// aggregates holds the correct content of each view, as one statement over the events.
var aggregates = map[string]string{
	"totals": `select customer, sum(sign * pieces)::bigint as pieces,
		sum(sign * pieces * cents)::bigint as cents from purchases group by customer`,
	"products": `select product, sum(sign * pieces)::bigint as pieces from purchases group by product`,
	"latest": `select distinct on (customer) customer, kind, product from purchases
		order by customer, xid desc, id desc`,
}

// purchases selects the events that can be handled.
const purchases = `with purchases as (
	select xid, id, body->>'kind' as kind, body->>'customer' as customer, body->>'product' as product,
		(body->>'pieces')::bigint as pieces, (body->>'cents')::bigint as cents,
			case body->>'kind' when 'returned' then -1 else 1 end as sign
	from events where body->>'kind' in ('bought', 'returned') and jsonb_typeof(body->'pieces') = 'number')`

// judge returns an error if a view is wrong, with the surplus and the missing rows.
func judge(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, v view) error {
	rows, err := db.Query(ctx, fmt.Sprintf(`%s, want as (%s)
select 'not ' || t::text from (table %s except table want) t
union all select 'but ' || t::text from (table want except table %s) t`,
		purchases, aggregates[v.name], v.table(), v.table()))
	if err != nil {
		return err
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("view %s: %q", v.name, wrong)
	}
	return err
}

// The judge detects a wrong row, a missing one, a surplus one, and an event that was left out or applied twice.
func judgeJudged(t *testing.T, db *pgxpool.Pool) {
	ctx := etcdtest.Context(t)
	plants := map[string][]string{
		"totals": {"update view_totals set pieces = pieces + 1 where customer = (select min(customer) from view_totals)",
			"insert into view_totals values ('x', 1, 1)"},
		"products": {"update view_products set pieces = pieces - 1 where product = (select min(product) from view_products)",
			"delete from view_products where product = 'tea'"},
		"latest": {"update view_latest set kind = 'lost'", "truncate view_latest"},
	}
	for _, v := range views {
		require.NoError(t, judge(ctx, db, v))
		last := purchase{bought, "customer 1", "x", 1, 1}
		handle := func(tx pgx.Tx) {
			_, err := tx.Exec(ctx, v.change, v.args(last)...)
			require.NoError(t, err)
		}
		for i, plant := range append(plants[v.name], "left out", "twice") {
			tx, err := db.Begin(ctx)
			require.NoError(t, err)
			switch plant {
			case "left out":
				require.NoError(t, addPurchase(ctx, tx, last))
			case "twice":
				require.NoError(t, addPurchase(ctx, tx, last))
				handle(tx)
				require.NoError(t, judge(ctx, tx, v))
				handle(tx)
			default:
				_, err = tx.Exec(ctx, plant)
				require.NoError(t, err)
			}
			if err = judge(ctx, tx, v); plant == "twice" && v.name == "latest" {
				require.NoError(t, err, "twice in a row is no difference there")
			} else {
				require.ErrorContains(t, err, "view "+v.name, "plant %d, %s", i, plant)
			}
			require.NoError(t, tx.Rollback(ctx))
		}
	}
}
