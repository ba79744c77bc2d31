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

// Kind is a kind of calls.
type Kind string

// The kinds.
const (
	Unary    Kind = "unary"
	Download Kind = "download" // one stream from the server
	Chat     Kind = "chat"     // one stream in both directions; each message is returned
)

// Load describes calls that are made for a period of time.
type Load struct {
	Kind Kind
	// Callers is the number of goroutines that make unary calls, each one after the other.
	Callers int
	// Bytes is the size of a request and of its response, or of a message.
	Bytes int
	Lasts time.Duration
	// Keys holds the key of an object for each goroutine. It is empty if the called service has no objects.
	Keys []string
}

// Figures holds the results of a Load.
type Figures struct {
	// Calls counts the answered calls, or the received messages of a stream.
	Calls int
	Took  time.Duration
	// P50 and P99 are quantiles of the latencies of unary calls.
	P50, P99 time.Duration
}

// caller makes calls.
type caller struct {
	// unary returns a function with which the i-th goroutine makes its calls.
	unary func(ctx context.Context, l *Load, i int) func() error
	// probes returns the client of a stream and its context. It is nil if the caller has no streams.
	probes func(ctx context.Context, l *Load, i int) (probepb.ProbeClient, context.Context)

	times [][]time.Duration // by goroutine; reused by the next load
}

// probing returns a caller that makes unary calls with a generated client.
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

// checked returns the call's error, or an error if the response has another size than the request.
func checked(reply *probepb.Blob, err error, l *Load) error {
	if err == nil && len(reply.GetData()) != l.Bytes {
		return fmt.Errorf("%d bytes came back, and %d were sent", len(reply.GetData()), l.Bytes)
	}
	return err
}

func (c *caller) measure(l *Load) (Figures, error) {
	// Like a handler's context, this one can end but has no deadline.
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

// calls makes unary calls. Each goroutine reads the clock once per call.
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

// quantile returns the nearest rank of sorted values, 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// download receives from a stream that does not end by itself.
func (c *caller) download(ctx context.Context, l *Load) (Figures, error) {
	client, ctx := c.probes(ctx, l, 0)
	stream, err := client.Download(ctx, &probepb.DownloadRequest{Blobs: math.MaxInt64, Bytes: int64(l.Bytes)})
	if err != nil {
		return Figures{}, err
	}
	return l.receive(stream.Recv)
}

// chat sends as fast as the stream accepts messages, and receives them.
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
		for stream.Send(blob) == nil { // the receiver returns the error
		}
	})
	return l.receive(stream.Recv)
}

// receive counts the messages of a period that begins with the first one.
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
