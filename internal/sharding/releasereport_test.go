package sharding

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state/format"
)

func TestDone(t *testing.T) {
	m := Move{Shard: 4, From: Owner{"a:1", 7}, Since: 10}
	for name, tc := range map[string]struct {
		lives bool
		r     Report
		done  bool
	}{
		"no report":                 {true, Report{}, false},
		"gone":                      {false, Report{}, true},
		"gone while busy":           {false, Report{7, 10, []int{4}}, true},
		"released":                  {true, Report{7, 10, nil}, true},
		"later":                     {true, Report{7, 11, []int{3, 5}}, true},
		"busy":                      {true, Report{7, 10, []int{4}}, false},
		"busy, among others":        {true, Report{7, 12, []int{1, 4, 9}}, false},
		"has not seen the map":      {true, Report{7, 9, nil}, false},
		"of the one before":         {true, Report{6, 11, nil}, false},
		"of the one after, somehow": {true, Report{8, 11, nil}, false},
	} {
		require.Equal(t, tc.done, m.Done(tc.lives, tc.r), name)
	}
}

func TestReportEncoding(t *testing.T) {
	r := Report{Incarnation: 7, Generation: 123, Busy: []int{4, 9, 10, 11, 12}}
	require.Equal(t, `{"format":1,"incarnation":7,"generation":123,"busy":"4,9-12"}`, string(r.Encode()))
	back, err := DecodeReport(r.Encode())
	require.NoError(t, err)
	require.Equal(t, r, back)

	require.Equal(t, `{"format":1,"incarnation":7,"generation":123,"busy":""}`,
		string(Report{Incarnation: 7, Generation: 123}.Encode()))
	back, err = DecodeReport([]byte(`{"incarnation":7,"generation":123}`))
	require.NoError(t, err)
	require.Equal(t, Report{Incarnation: 7, Generation: 123}, back)
}

func TestDecodeReportRefuses(t *testing.T) {
	for value, message := range map[string]string{
		``:                                  "unexpected end of JSON input",
		`null`:                              "incarnation 0 or generation 0 is not positive",
		`{"incarnation":7}`:                 "incarnation 7 or generation 0 is not positive",
		`{"incarnation":0,"generation":12}`: "incarnation 0 or generation 12 is not positive",
		`{"incarnation":7,"generation":12,"busy":"x"}`:     `busy: "x" is neither a shard nor a range of shards`,
		`{"incarnation":7,"generation":12,"busy":"4,4"}`:   `busy: the range "4" is not above the one before it`,
		`{"incarnation":7,"generation":12,"busy":"65536"}`: `busy: the range "65536" does not ascend or is not below 65536`,
	} {
		r, err := DecodeReport([]byte(value))
		require.Zero(t, r)
		require.ErrorIs(t, err, ErrBadReport)
		require.EqualError(t, err, "unreadable report of released shards: "+message)
	}
	_, err := DecodeReport([]byte(`{"format":2,"incarnation":7,"generation":12}`))
	require.ErrorIs(t, err, ErrBadReport)
	require.ErrorIs(t, err, format.ErrFormat)
}

func FuzzDecodeReport(f *testing.F) {
	f.Add([]byte(`{"incarnation":7,"generation":123,"busy":"4,9-12"}`), 4)
	f.Add([]byte(`{"incarnation":1,"generation":1,"busy":"0,1,2"}`), 3)
	f.Fuzz(func(t *testing.T, value []byte, shard int) {
		r, err := DecodeReport(value)
		if err != nil {
			require.ErrorIs(t, err, ErrBadReport)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		again, err := DecodeReport(r.Encode())
		require.NoError(t, err)
		require.Equal(t, r, again)
		m := Move{Shard: shard, From: Owner{"a:1", r.Incarnation}, Since: r.Generation}
		require.Equal(t, m.Done(true, r), m.Done(true, again))
	})
}
