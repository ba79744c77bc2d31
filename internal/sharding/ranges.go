package sharding

import (
	"fmt"
	"strconv"
	"strings"
)

// FormatRanges formats ascending shards as they are stored in a map: "0-99,105,200-210".
func FormatRanges(shards []int) string {
	var b []byte
	for i := 0; i < len(shards); {
		last := i
		for last+1 < len(shards) && shards[last+1] == shards[last]+1 {
			last++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(shards[i]), 10)
		if last > i {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(shards[last]), 10)
		}
		i = last + 1
	}
	return string(b)
}

// parseRanges calls take for each shard in the text. Ranges must ascend without overlap, and every shard must
// be below limit. An empty text has no shards.
func parseRanges(text string, limit int, take func(shard int) error) error {
	previous := -1
	for rest, more := text, text != ""; more; {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		first, last, err := parseRange(part)
		switch {
		case err != nil:
			return fmt.Errorf("%.40q is neither a shard nor a range of shards", part)
		case first > last || last >= limit:
			return fmt.Errorf("the range %.40q does not ascend or is not below %d", part, limit)
		case first <= previous:
			return fmt.Errorf("the range %.40q is not above the one before it", part)
		}
		for shard := first; shard <= last; shard++ {
			if err := take(shard); err != nil {
				return err
			}
		}
		previous = last
	}
	return nil
}

func parseRange(part string) (first, last int, err error) {
	from, to, isRange := strings.Cut(part, "-")
	a, err := strconv.ParseUint(from, 10, 31)
	if err != nil || !isRange {
		return int(a), int(a), err
	}
	b, err := strconv.ParseUint(to, 10, 31)
	return int(a), int(b), err
}
