package sharding

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state/format"
)

const stored = `{"version":1,"shards":300,"generation":123,"grants":[` +
	`{"address":"10.0.0.1:47001","incarnation":7,"epoch":12,"shards":"0-99,105,200-210"},` +
	`{"address":"10.0.0.1:47001","incarnation":7,"epoch":123,"shards":"101"},` +
	`{"address":"10.0.0.2:47001","incarnation":9,"epoch":12,"shards":"100,106-199"}],"moves":[` +
	`{"address":"10.0.0.2:47001","incarnation":9,"since":123,"shards":"101"},` +
	`{"address":"10.0.0.3:47001","incarnation":5,"since":11,"shards":"98-100"}]}`

func TestDecode(t *testing.T) {
	m, err := DecodeMap([]byte(stored))
	require.NoError(t, err)
	require.Equal(t, 300, m.Shards())
	require.Equal(t, int64(123), m.Generation())
	a, b, c := Owner{"10.0.0.1:47001", 7}, Owner{"10.0.0.2:47001", 9}, Owner{"10.0.0.3:47001", 5}
	require.Equal(t, []Load{{a, 113}, {b, 95}}, m.Loads())
	var moves []Move
	for move := range m.Moves() {
		moves = append(moves, move)
	}
	require.Equal(t, []Move{{98, c, 11}, {99, c, 11}, {100, c, 11}, {101, b, 123}}, moves)
	for shard, want := range map[int]struct {
		owner Owner
		epoch int64
		move  Move
	}{
		0: {owner: a, epoch: 12}, 98: {a, 12, Move{98, c, 11}}, 100: {b, 12, Move{100, c, 11}}, 101: {a, 123, Move{101, b,
			123}},
		104: {}, 105: {owner: a, epoch: 12}, 199: {owner: b, epoch: 12}, 211: {}, 299: {},
	} {
		owner, owned := m.Owner(shard)
		require.Equal(t, want.owner, owner, shard)
		require.Equal(t, want.owner != Owner{}, owned, shard)
		require.Equal(t, want.epoch, m.Epoch(shard), shard)
		move, open := m.Move(shard)
		require.Equal(t, want.move, move, shard)
		require.Equal(t, want.move != Move{}, open, shard)
	}
	require.Panics(t, func() { m.Owner(300) })
	require.Panics(t, func() { m.Move(-1) })
	require.Equal(t, stored, string(m.Encode()))
}

// A map in another spelling is the same map, and is encoded in the standard spelling.
func TestDecodeOtherSpellings(t *testing.T) {
	want, err := DecodeMap([]byte(stored))
	require.NoError(t, err)
	first := `{"address":"10.0.0.1:47001","incarnation":7,"epoch":12,"shards":"0-99,105,200-210"}`
	last := `{"address":"10.0.0.2:47001","incarnation":9,"epoch":12,"shards":"100,106-199"}`
	for name, value := range map[string]string{
		"spaces":         strings.ReplaceAll(stored, `,"`, ",\n \""),
		"smaller ranges": strings.Replace(stored, `0-99,105`, `0,1-50,51-99,105`, 1),
		"parted grants": strings.Replace(stored, first, strings.Replace(first, "0-99,", "", 1)+","+strings.Replace(first,
			"0-99,105,200-210", "0-99", 1), 1),
		"another order":   strings.NewReplacer(first, last, last, first).Replace(stored),
		"order of fields": strings.Replace(stored, `"shards":300,"generation":123`, `"generation":123,"shards":300`, 1),
	} {
		require.NotEqual(t, stored, value, name)
		m, err := DecodeMap([]byte(value))
		require.NoError(t, err, name)
		require.Equal(t, want, m, name)
		require.Equal(t, stored, string(m.Encode()), name)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct{ from, to, message string }{
		{stored, ``, "unexpected end of JSON input"},
		{stored, `null`, "there is no version 0"},
		{stored, `[]`, "json: cannot unmarshal array into Go value of type sharding.wireMap"},
		{stored, stored + `{}`, "invalid character '{' after top-level value"},
		{`"version":1,`, ``, "there is no version 0"},
		{`"version":1`, `"version":-1`, "there is no version -1"},
		{`"shards":300`, `"shards":0`, "0 shards are not between 1 and 65536"},
		{`"shards":300`, `"shards":65537`, "65537 shards are not between 1 and 65536"},
		{`"shards":300`, `"shards":210`, `grant 0: the range "200-210" does not ascend or is not below 210`},
		{`"generation":123`, `"generation":0`, "generation 0 is not positive"},
		{`"generation":123`, `"generation":122`, "grant 1: generation 123 is not between 1 and the map's 122"},
		{`"epoch":12,`, `"epoch":0,`, "grant 0: generation 0 is not between 1 and the map's 123"},
		{`"since":123`, `"since":124`, "move 0: generation 124 is not between 1 and the map's 123"},
		{`"since":11,`, ``, "move 1: generation 0 is not between 1 and the map's 123"},
		{`"address":"10.0.0.1:47001"`, `"address":""`, `grant 0: "" at incarnation 7 can own nothing`},
		{`"incarnation":5`, `"incarnation":0`, `move 1: "10.0.0.3:47001" at incarnation 0 can own nothing`},
		{`"shards":"98-100"`, `"shards":""`, "move 1: it has no shards"},
		{`"100,106-199"`, `"99-100"`, "grant 2: shard 99 is granted twice"},
		{`"98-100"`, `"98-101"`, "move 1: shard 101 has no owner or another move"},
		{`"98-100"`, `"104"`, "move 1: shard 104 has no owner or another move"},
		{`0-99,105`, `0-99,99`, `grant 0: the range "99" is not above the one before it`},
		{`0-99,105`, `105,0-99`, `grant 0: the range "0-99" is not above the one before it`},
		{`0-99,105`, `99-0`, `grant 0: the range "99-0" does not ascend or is not below 300`},
		{`0-99,105`, `0-99,`, `grant 0: "" is neither a shard nor a range of shards`},
		{`0-99,105`, `0- 99`, `grant 0: "0- 99" is neither a shard nor a range of shards`},
		{`0-99,105`, `-1`, `grant 0: "-1" is neither a shard nor a range of shards`},
		{`0-99,105`, `+1`, `grant 0: "+1" is neither a shard nor a range of shards`},
		{`0-99,105`, `0-1-2`, `grant 0: "0-1-2" is neither a shard nor a range of shards`},
		{`0-99,105`, `0-99999999999`, `grant 0: "0-99999999999" is neither a shard nor a range of shards`},
	} {
		require.Contains(t, stored, tc.from)
		m, err := DecodeMap([]byte(strings.Replace(stored, tc.from, tc.to, 1)))
		require.Nil(t, m)
		require.ErrorIs(t, err, ErrBadMap)
		require.NotErrorIs(t, err, format.ErrFormat)
		require.EqualError(t, err, "unreadable shard map: "+tc.message)
	}
}

// A map keeps the fields that this release does not know, and so do the maps that are planned from it.
func TestMapsKeepUnknownFields(t *testing.T) {
	m, err := DecodeMap([]byte(strings.Replace(stored, `"version":1`, `"comment":{"by": "hand"},"version":1,"a":[]`, 1)))
	require.NoError(t, err)
	require.Equal(t, strings.TrimSuffix(stored, "}")+`,"a":[],"comment":{"by": "hand"}}`, string(m.Encode()))
	next := plan(t, Input{Generation: 500, Shards: 300, Current: m.NotBefore(200), Members: members(3), Mode: Rebalance})
	require.Positive(t, next.MovedShards())
	require.Contains(t, string(next.Map.Encode()), `,"a":[],"comment":{"by": "hand"}}`)
}

// The version is recognized even if nothing else parses.
func TestDecodeTellsANewerVersion(t *testing.T) {
	for _, value := range []string{strings.Replace(stored, `"version":1`, `"version":2`, 1),
		`{"shards":"many","version":3,"grants":{}}`} {
		_, err := DecodeMap([]byte(value))
		require.ErrorIs(t, err, ErrBadMap)
		require.ErrorIs(t, err, format.ErrFormat)
		require.ErrorContains(t, err, "reads format 1: use a release of Goverse that reads format")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(stored))
	f.Add([]byte(`{"version":1,"shards":1,"generation":1}`))
	f.Add([]byte(`{"version":1,"shards":4,"generation":9,` +
		`"grants":[{"address":"\ud800","incarnation":1,"epoch":1,"shards":"0,1,2-3"}],` +
		`"moves":[{"address":"<","incarnation":1,"since":9,"shards":"3"}]}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		m, err := DecodeMap(value)
		if err != nil {
			require.ErrorIs(t, err, ErrBadMap)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		first := m.Encode()
		again, err := DecodeMap(first)
		require.NoError(t, err)
		require.Equal(t, m, again)
		require.Equal(t, string(first), string(again.Encode()))

		if m.Generation() == math.MaxInt64 {
			return // no generation follows it
		}
		r, err := Plan(Input{Generation: m.Generation() + 1, Shards: m.Shards(), Current: m, Members: members(3),
			Mode: Rebalance})
		require.NoError(t, err, "what can be read can be planned with")
		planned, err := DecodeMap(r.Map.Encode())
		require.NoError(t, err)
		require.Equal(t, r.Map, planned)
	})
}
