//go:build unix

package postgres_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
)

// BenchmarkSave measures a save and a call by one caller, compared with a plain update of a row of the same
// size. PostgreSQL does not wait for the disk here.
func BenchmarkSave(b *testing.B) {
	d := start(b)
	text := strings.Repeat("x", 200)
	b.Run("bare update", func(b *testing.B) {
		d.exec(b, "create table if not exists bare (id int primary key, value bytea)")
		d.exec(b, "insert into bare values (1, $1) on conflict do nothing", []byte(text))
		for b.Loop() {
			d.exec(b, "update bare set value = $2 where id = $1", 1, []byte(text))
		}
	})
	s, err := state.Load(d.ctx, d.store(b), owner(1), wrapperspb.String(text))
	require.NoError(b, err)
	b.Run("Save", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, s.Save(d.ctx))
		}
	})
	b.Run("Do", func(b *testing.B) {
		for b.Loop() {
			_, err := state.Do(d.ctx, s, rand.Text(), func(context.Context) (*wrapperspb.StringValue, error) {
				return s.Value(), nil
			})
			require.NoError(b, err)
		}
	})
}
