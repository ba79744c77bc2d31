package shard

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other languages must compute the same values. The origin of the examples is described in the file.
func TestOfAgreesWithThePublishedExamples(t *testing.T) {
	text, err := os.ReadFile("testdata/keys.txt")
	require.NoError(t, err)
	seen := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, columns, 4, line)
		var key string
		require.NoError(t, json.Unmarshal([]byte(columns[0]), &key))
		hash, err := strconv.ParseUint(columns[1], 16, 64)
		require.NoError(t, err)
		require.Equal(t, columns[2], strconv.Itoa(Of(key, DefaultCount)), line)
		require.Equal(t, columns[3], strconv.Itoa(Of(key, 1000)), line)
		require.Equal(t, int(hash%MaxCount), Of(key, MaxCount), line)
		require.Zero(t, Of(key, 1))
		seen++
	}
	require.Greater(t, seen, 20)
}

func TestOfSpreads(t *testing.T) {
	counts := make([]int, 64)
	for i := range 64 * 1000 {
		counts[Of("user/"+strconv.Itoa(i), len(counts))]++
	}
	for shard, n := range counts { // six standard deviations
		require.InDelta(t, 1000, n, 190, "shard %d", shard)
	}
}

func TestOfWithoutShardsPanics(t *testing.T) {
	require.Panics(t, func() { Of("a", 0) })
	require.Panics(t, func() { Of("a", -1) })
}

func BenchmarkOf(b *testing.B) {
	for _, n := range []int{8, 40, 200} {
		key := strings.Repeat("k", n)
		b.Run(fmt.Sprintf("%dB", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Of(key, DefaultCount)
			}
		})
	}
}
