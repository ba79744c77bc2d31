package target

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const (
	devGoal  = 3 * time.Second
	devLasts = 4 * time.Second
)

// leaderLine is a plain line of `goversed dev` that names a leader, as in
// "0.116s  127.0.0.1:29402 leads (term 3), the first leader".
var leaderLine = regexp.MustCompile(`^\s*[0-9.]+s\s+\S+:[0-9]+ leads\b`)

// startDev measures `goversed dev`, from the start of its process to the first
// line that names a leader: embedded etcd, three node processes, a leader.
func startDev(ctx context.Context, env Env, r *report.Result) error {
	g, err := buildGoversed(ctx)
	if err != nil {
		return err
	}
	defer g.remove()
	series := sample.Millis("goversed dev: first leader")
	n := env.pick(10, 2)
	env.Log("T14: goversed dev, %d times", n)
	for range n {
		started := time.Now()
		var led time.Time
		d, err := g.run(func(line string) {
			if led.IsZero() && leaderLine.MatchString(line) {
				led = time.Now()
			}
		}, "dev", "--for", devLasts.String())
		if err != nil {
			return err
		}
		bound, cancel := context.WithTimeout(ctx, devLasts+30*time.Second)
		err = d.wait(bound)
		cancel()
		if err != nil {
			return err
		}
		if led.IsZero() {
			return errors.New("goversed dev ended and named no leader")
		}
		series.Add(led.Sub(started))
	}
	r.Row("`goversed dev`, three nodes: first leader", fmt.Sprintf("≤ %v", devGoal),
		fmt.Sprintf("p50 %s, max %s of %d", seconds(series.Median()), seconds(series.Max()), n),
		report.Judge(series.Max() <= float64(devGoal.Milliseconds())))
	r.Keep(series)
	r.Note("`goversed dev` is timed from the start of its process to its first line that names a leader.")
	return nil
}
