package processorload

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// to returns rewinds at any time.
func to(positions ...int) (all []rewind) {
	for _, p := range positions {
		all = append(all, rewind{p, 0, 1000})
	}
	return all
}

func TestCheck(t *testing.T) {
	parked := map[int]bool{4: true}
	for name, c := range map[string]struct {
		h    history
		says string
	}{
		"all":                {history{effects: []int{1, 2, 3, 4, 5}, last: 5}, ""},
		"lost":               {history{effects: []int{1, 2, 4, 5}, last: 5}, "cannot follow"},
		"twice":              {history{effects: []int{1, 2, 2, 3}, last: 3}, "cannot follow"},
		"repeated":           {history{effects: []int{1, 2, 1, 2, 3}, last: 3, repeats: 2}, ""},
		"repeated too far":   {history{effects: []int{1, 2, 3, 1, 2, 3}, last: 3, repeats: 2}, "cannot follow"},
		"the last is lost":   {history{effects: []int{1, 2}, last: 3}, "event 3 was lost"},
		"rewound":            {history{effects: []int{1, 2, 3, 2, 3}, last: 3, rewinds: to(1)}, ""},
		"rewound twice":      {history{effects: []int{1, 2, 3, 2, 3}, last: 3, rewinds: to(0, 1)}, ""},
		"rewound in turns":   {history{effects: []int{1, 2, 3, 1, 2, 3, 2, 3}, last: 3, rewinds: to(1, 0)}, "cannot"},
		"rewound too often":  {history{effects: []int{1, 2, 3, 2, 3, 2, 3}, last: 3, rewinds: to(1)}, "cannot"},
		"parked and late":    {history{effects: []int{1, 2, 3, 5, 4}, last: 5, parked: parked}, ""},
		"parked and dropped": {history{effects: []int{1, 2, 3, 5}, last: 5, parked: parked, dropped: parked}, ""},
		"parked and lost":    {history{effects: []int{1, 2, 3, 5}, last: 5, parked: parked}, "event 4 was lost"},
		"retried twice":      {history{effects: []int{1, 2, 3, 5, 4, 4}, last: 5, parked: parked}, "cannot follow"},
		"replayed and retried": {history{effects: []int{1, 2, 3, 5, 4, 5, 4}, last: 5, rewinds: []rewind{{3, 4, 4}},
			parked: parked}, "cannot follow"},
		"not rewound":          {history{effects: []int{1, 2, 3, 4}, last: 4, rewinds: []rewind{{1, 2, 3}}}, "cannot follow"},
		"retried and replayed": {history{effects: []int{1, 2, 3, 5, 4, 4, 5}, last: 5, rewinds: to(3), parked: parked}, ""},
	} {
		err := c.h.check()
		if c.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.says, name)
		}
	}
	require.NoError(t, checkPause([]int{1}, []int{1}))
	require.Error(t, checkPause([]int{1}, []int{1, 2}))
}
