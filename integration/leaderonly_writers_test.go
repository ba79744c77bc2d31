//go:build unix

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rate says how often writers write.
type rate struct {
	every  time.Duration // from one write to the next
	repeat time.Duration // from a failed attempt to the next
}

// fast is the rate of 200 writes a second. Clients that repeat a write so soon ignore Retry-After.
var fast = rate{every: 5 * time.Millisecond, repeat: 20 * time.Millisecond}

// failure is an attempt to write without the correct answer.
type failure struct {
	id         string
	from, to   time.Time
	what       string
	unknown    bool // it may have been carried out
	repeatedAs int  // the final status after repeating it
}

// writers send each write in a single attempt. A failed write is recorded and repeated with the same id.
type writers struct {
	t      *testing.T
	client *http.Client
	urls   []string // tried in any order; the next one if a connection is refused
	rate   rate

	mu           sync.Mutex
	acknowledged map[string]writeAnswer
	took         []time.Duration // of acknowledged first attempts
	failures     []failure
	refused      int // connections refused before anything was sent
	sent         int
	replayed     int // answers to writes that were already carried out

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// startWriters writes fast until finish is called.
func startWriters(t *testing.T, urls ...string) *writers { return startWritersAt(t, fast, urls...) }

// startWritersAt writes until finish is called.
func startWritersAt(t *testing.T, at rate, urls ...string) *writers {
	transport := &http.Transport{DisableKeepAlives: true} // so that no attempt uses a closed connection
	ctx, cancel := context.WithCancel(context.Background())
	w := &writers{t: t, urls: urls, rate: at, acknowledged: map[string]writeAnswer{}, stop: cancel,
		client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
	t.Cleanup(w.finish)
	w.wg.Go(func() {
		again := time.NewTicker(at.every)
		defer again.Stop()
		for n := 0; ; n++ {
			select {
			case <-again.C:
				w.wg.Go(func() { w.write(n) })
			case <-ctx.Done():
				return
			}
		}
	})
	return w
}

// finish waits until all writes that were started are answered.
func (w *writers) finish() {
	w.stop()
	w.wg.Wait()
}

// write sends the nth write until it is acknowledged.
func (w *writers) write(n int) {
	id := fmt.Sprintf("%06d", n)
	method, name := http.MethodPut, fmt.Sprint("p-", n%20)
	switch {
	case n%10 == 7:
		method = http.MethodDelete
	case n%3 == 0:
		method, name = http.MethodPost, "c-"+id
	}
	w.mu.Lock()
	w.sent++
	w.mu.Unlock()
	deadline := time.Now().Add(time.Minute)
	failed := -1
	for first := true; ; first = false {
		began := time.Now()
		a, status, err := w.attempt(method, name, id)
		ended := time.Now()
		w.mu.Lock()
		switch {
		case err == nil && status == http.StatusOK:
			w.acknowledged[id] = a
			if first {
				w.took = append(w.took, ended.Sub(began))
			} else if failed >= 0 {
				w.failures[failed].repeatedAs = status
			}
			w.mu.Unlock()
			return
		case first:
			f := failure{id: id, from: began, to: ended, what: fmt.Sprint(status)}
			f.unknown = err != nil || status == http.StatusBadGateway || status == http.StatusGatewayTimeout
			if err != nil {
				f.what = err.Error()
			}
			failed = len(w.failures)
			w.failures = append(w.failures, f)
		}
		w.mu.Unlock()
		if time.Now().After(deadline) {
			w.t.Errorf("write %s: not acknowledged within a minute: %d, %v", id, status, err)
			return
		}
		<-time.After(w.rate.repeat)
	}
}

// attempt makes one attempt. A request that was certainly not sent does not count.
func (w *writers) attempt(method, name, id string) (a writeAnswer, status int, _ error) {
	body, err := json.Marshal(document{ID: id})
	if err != nil {
		return a, 0, err
	}
	deadline := time.Now().Add(30 * time.Second)
	for at := rand.IntN(len(w.urls)); ; at++ {
		r, err := http.NewRequest(method, w.urls[at%len(w.urls)]+"/configs/"+name, bytes.NewReader(body))
		if err != nil {
			return a, 0, err
		}
		r.Header.Set("Idempotency-Key", id)
		resp, err := w.client.Do(r)
		op, refused := errors.AsType[*net.OpError](err)
		refused = refused && op.Op == "dial"
		circles := err != nil && strings.Contains(err.Error(), "stopped after 10 redirects")
		if (refused || circles) && time.Now().Before(deadline) {
			w.mu.Lock()
			w.refused++
			w.mu.Unlock()
			<-time.After(5 * time.Millisecond)
			continue
		}
		if err != nil {
			return a, 0, err
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read
		if err != nil {
			return a, resp.StatusCode, err
		}
		if resp.Header.Get("Goverse-Refused") == "not-ready" && time.Now().Before(deadline) {
			w.mu.Lock()
			w.refused++ // it already listens
			w.mu.Unlock()
			continue
		}
		if resp.StatusCode != http.StatusOK {
			return a, resp.StatusCode, nil
		}
		if resp.Header.Get("Idempotent-Replayed") != "" {
			w.mu.Lock()
			w.replayed++
			w.mu.Unlock()
		}
		return a, resp.StatusCode, json.Unmarshal(text, &a)
	}
}

// wrote waits until n more writes were acknowledged.
func (w *writers) wrote(n int) {
	w.t.Helper()
	count := func() int { w.mu.Lock(); defer w.mu.Unlock(); return len(w.acknowledged) }
	from := count()
	require.Eventually(w.t, func() bool { return count() >= from+n }, 30*time.Second, 5*time.Millisecond)
}

// failed returns the attempts that have failed so far.
func (w *writers) failed() []failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]failure(nil), w.failures...)
}

// report logs the measurements.
func (w *writers) report(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sort.Slice(w.took, func(i, j int) bool { return w.took[i] < w.took[j] })
	at := func(q float64) time.Duration {
		return w.took[int(q*float64(len(w.took)-1))].Round(100 * time.Microsecond)
	}
	w.t.Logf("%s: %d writes, %d acknowledged, %d failed at first and were sent again, %d of those had been carried out; "+
		"%d connections were refused or led in a circle; took %v in the middle, %v at 99 %%, %v at most", what, w.sent,
		len(w.acknowledged), len(w.failures), w.replayed, w.refused, at(0.5), at(0.99), at(1))
}
