package callproc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/test/probepb"
)

// Kind is of what kind calls are.
type Kind string

// The kinds.
const (
	Unary    Kind = "unary"
	Download Kind = "download" // one stream from the server
	Chat     Kind = "chat"     // one stream both ways; each message is returned
)

// Load is calls that are made for a while.
type Load struct {
	Kind Kind
	// Callers is how many goroutines make unary calls, one after the other each.
	Callers int
	// Bytes of a request and its response, or of a message.
	Bytes int
	Lasts time.Duration
	// Keys are those of the objects, a caller each; none: what is called has no objects.
	Keys []string
}

// Figures are what a Load took.
type Figures struct {
	// Calls that were answered, or messages of a stream that were received.
	Calls int
	Took  time.Duration
	// P50 and P99 are quantiles of the latencies of unary calls.
	P50, P99 time.Duration
}

// caller makes calls.
type caller struct {
	// unary is a call that the i-th goroutine makes again and again.
	unary func(ctx context.Context, l *Load, i int) func() error
	// probes is the client of a stream, and the context for it; nil: there are no streams.
	probes func(ctx context.Context, l *Load, i int) (probepb.ProbeClient, context.Context)

	times [][]time.Duration // by goroutines, kept for the next load
}

// probing is a caller whose unary calls are those of a generated client.
func probing(probes func(ctx context.Context, l *Load, i int) (probepb.ProbeClient, context.Context)) *caller {
	return &caller{probes: probes, unary: func(ctx context.Context, l *Load, i int) func() error {
		client, ctx := probes(ctx, l, i)
		request := &probepb.Blob{Data: make([]byte, l.Bytes)}
		return func() error {
			reply, err := client.Echo(ctx, request)
			return checked(reply, err, l)
		}
	}}
}

// checked is the error of a call, or of a response that is not what was sent.
func checked(reply *probepb.Blob, err error, l *Load) error {
	if err == nil && len(reply.GetData()) != l.Bytes {
		return fmt.Errorf("%d bytes came back, and %d were sent", len(reply.GetData()), l.Bytes)
	}
	return err
}

func (c *caller) measure(l *Load) (Figures, error) {
	// As in a handler: a context that can end, without a deadline.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch {
	case l.Kind == Unary:
		return c.calls(ctx, l)
	case c.probes == nil:
		return Figures{}, errors.New("this caller has no streams")
	case l.Kind == Download:
		return c.download(ctx, l)
	}
	return c.chat(ctx, l)
}

// calls makes unary calls. Each goroutine reads the clock once a call.
func (c *caller) calls(ctx context.Context, l *Load) (Figures, error) {
	for len(c.times) < l.Callers {
		c.times = append(c.times, nil)
	}
	calls, errs := make([]func() error, l.Callers), make([]error, l.Callers)
	for i := range calls {
		calls[i] = c.unary(ctx, l, i)
	}
	var wg sync.WaitGroup
	began := time.Now()
	for i, call := range calls {
		wg.Go(func() {
			times := c.times[i][:0]
			for last := time.Now(); last.Sub(began) < l.Lasts && errs[i] == nil; {
				errs[i] = call()
				now := time.Now()
				times = append(times, now.Sub(last))
				last = now
			}
			c.times[i] = times
		})
	}
	wg.Wait()
	took := time.Since(began)
	all := slices.Concat(c.times[:l.Callers]...)
	slices.Sort(all)
	return Figures{Calls: len(all), Took: took, P50: quantile(all, 0.5), P99: quantile(all, 0.99)}, errors.Join(errs...)
}

// quantile is the nearest rank of sorted values.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// download receives a stream that would not end by itself.
func (c *caller) download(ctx context.Context, l *Load) (Figures, error) {
	client, ctx := c.probes(ctx, l, 0)
	stream, err := client.Download(ctx, &probepb.DownloadRequest{Blobs: math.MaxInt64, Bytes: int64(l.Bytes)})
	if err != nil {
		return Figures{}, err
	}
	return l.receive(stream.Recv)
}

// chat sends as fast as the stream accepts it, and receives.
func (c *caller) chat(ctx context.Context, l *Load) (f Figures, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	client, ctx := c.probes(ctx, l, 0)
	stream, err := client.Chat(ctx)
	if err != nil {
		return Figures{}, err
	}
	wg.Go(func() {
		blob := &probepb.Blob{Data: make([]byte, l.Bytes)}
		for stream.Send(blob) == nil { // receiving says why not
		}
	})
	return l.receive(stream.Recv)
}

// receive counts what comes for a while, from the first message on.
func (l *Load) receive(next func() (*probepb.Blob, error)) (Figures, error) {
	blob, err := next()
	if err := checked(blob, err, l); err != nil {
		return Figures{}, err
	}
	f, began := Figures{}, time.Now()
	for f.Took < l.Lasts {
		blob, err := next()
		if err := checked(blob, err, l); err != nil {
			return Figures{}, err
		}
		f.Calls++
		f.Took = time.Since(began)
	}
	return f, nil
}
