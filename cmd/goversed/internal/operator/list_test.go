package operator

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A list of any limit, filter and size of its steps has the same items, page by page, as the whole list.
func TestListInPages(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 25 {
		names = append(names, fmt.Sprintf("%c/%02d", 'a'+i%3, i))
	}
	for _, step := range []int{1, 2, 7, 100} {
		source := listSource[string]{name: func(s string) string { return s }, read: func(_ context.Context, after string,
			limit int) (items []string, more bool, err error) {
			from := slices.Index(names, after) + 1
			to := min(from+min(limit, step), len(names))
			return names[from:to], to < len(names), nil
		}}
		run := func(ctx context.Context, _ string, list func(context.Context) error) (string, error) {
			return finishPart(ctx, list)
		}
		for _, prefix := range []string{"", "a/", "c/", "none"} {
			var want []string
			for _, name := range names {
				if len(name) >= len(prefix) && name[:len(prefix)] == prefix {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			for _, limit := range []int{0, 1, 2, len(want), 100} {
				var got []string
				q := ListQuery{Limit: limit, NamePrefix: prefix}
				for more := true; more; {
					page, err := readList(t.Context(), run, source, q)
					require.NoError(t, err)
					require.True(t, limit == 0 || len(page.Items) <= limit)
					require.Equal(t, page.More, page.Next != "")
					got, q.After, more = append(got, page.Items...), page.Next, page.More
				}
				slices.Sort(got)
				require.Equal(t, want, got, "step %d, prefix %q, limit %d", step, prefix, limit)
			}
		}
	}
}
