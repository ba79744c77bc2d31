//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/etcdtest"
)

// judge returns an error if the events that arrived differ from those committed, in order.
func judge(committed, arrived []string) error {
	place := map[string]int{}
	for i, event := range committed {
		place[event] = i
	}
	seen, last := map[string]bool{}, -1
	for _, event := range arrived {
		i, known := place[event]
		switch {
		case !known:
			return fmt.Errorf("%s arrived, and was never committed", event)
		case seen[event]:
			return fmt.Errorf("%s arrived twice", event)
		case i < last:
			return fmt.Errorf("%s arrived after %s", event, committed[last])
		}
		seen[event], last = true, i
	}
	for _, event := range committed {
		if !seen[event] {
			return fmt.Errorf("%s is missing", event)
		}
	}
	return nil
}

func TestJudge(t *testing.T) {
	committed := []string{"a", "b", "c"}
	for want, arrived := range map[string][]string{
		"b is missing":                    {"a", "c"},
		"c is missing":                    {"a", "b"},
		"b arrived twice":                 {"a", "b", "c", "b"},
		"b arrived after c":               {"a", "c", "b"},
		"x arrived, and was never commit": {"a", "x", "b", "c"},
	} {
		require.ErrorContains(t, judge(committed, arrived), want)
	}
	require.NoError(t, judge(committed, committed))
}

// committed returns the events that must arrive. It also checks that each order has its event, and each event
// an order.
func committed(t *testing.T, db *pgxpool.Pool) []string {
	t.Helper()
	var alone int
	require.NoError(t, db.QueryRow(etcdtest.Context(t), `select count(*) from orders
full join (select (body->>'order')::bigint as id from outbox) m using (id)
where m.id is null or orders.id is null`).Scan(&alone))
	require.Zero(t, alone, "an order without a message, or a message without an order")
	return column(t, db, "select xid::text || '/' || id from outbox order by xid, id")
}

func column(t *testing.T, db *pgxpool.Pool, sql string) []string {
	t.Helper()
	rows, err := db.Query(context.Background(), sql)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return slices.Clip(all)
}
