package route

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChanged(t *testing.T) {
	for name, c := range map[string]struct {
		seen       SeenOwner
		owner      string
		generation int64
		want       bool
	}{
		"nothing has changed":                                    {SeenOwner{"a", 5, 0}, "a", 5, false},
		"nothing has changed, and nobody owns it":                {SeenOwner{"", 5, 0}, "", 5, false},
		"the owner is gone":                                      {SeenOwner{"a", 5, 0}, "", 5, true},
		"there is a later map":                                   {SeenOwner{"a", 5, 0}, "b", 6, true},
		"a later map names the same owner":                       {SeenOwner{"a", 5, 0}, "a", 6, true},
		"the owner named this very map":                          {SeenOwner{"a", 5, 5}, "a", 5, false},
		"the map is not the one that was named yet":              {SeenOwner{"a", 5, 7}, "a", 6, false},
		"the map is the one that was named":                      {SeenOwner{"a", 5, 7}, "a", 7, true},
		"the owner named an older one":                           {SeenOwner{"a", 5, 3}, "a", 5, false},
		"the owner is gone, and named a later map":               {SeenOwner{"a", 5, 7}, "", 5, true},
		"etcd was restored":                                      {SeenOwner{"a", 5, 0}, "a", 4, true},
		"etcd was restored, and the owner named a map of before": {SeenOwner{"a", 5, 7}, "a", 4, true},
	} {
		require.Equal(t, c.want, c.seen.ChangedBy(c.owner, c.generation), name)
	}
}
