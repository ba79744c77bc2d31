//go:build unix

package integration

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
)

var (
	soakFor  = flag.Duration("soak.for", 0, "how long the soak runs: 1h is the full run; 0 skips it")
	soakSeed = flag.Uint64("soak.seed", 1, "which faults the soak has, and when")
	soakOut  = flag.String("soak.out", "", "file for what the soak measured, as CSV; bench/cmd/soakplot draws it")
)

const (
	soakEvery = 2 * time.Second
	soakToken = "a token for the soak alone"
)

// soakSample holds a process's resources at one time.
type soakSample struct {
	after                        time.Duration
	resident, goroutines, opened float64
}

// soakMetrics names the metrics, in the order of the columns.
var soakMetrics = []string{"process_resident_memory_bytes", "go_goroutines", "process_open_fds"}

// checkNoGrowth returns an error for resources that grew from the first third of the samples, without the first
// twentieth, to the last third. It compares medians, because faults come and go.
func checkNoGrowth(samples []soakSample) error {
	samples = samples[len(samples)/20:]
	third := len(samples) / 3
	if third < 5 {
		return fmt.Errorf("%d samples say nothing", len(samples))
	}
	median := func(part []soakSample, of func(soakSample) float64) float64 {
		values := make([]float64, len(part))
		for i, s := range part {
			values[i] = of(s)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	for _, c := range []struct {
		what string
		of   func(soakSample) float64
		more float64 // allowed on top of a tenth
	}{
		{"resident memory", func(s soakSample) float64 { return s.resident }, 8 << 20},
		{"goroutines", func(s soakSample) float64 { return s.goroutines }, 10},
		{"open files", func(s soakSample) float64 { return s.opened }, 5},
	} {
		before, after := median(samples[:third], c.of), median(samples[len(samples)-third:], c.of)
		if after > 1.1*before+c.more {
			return fmt.Errorf("%s grew from %.0f to %.0f", c.what, before, after)
		}
	}
	return nil
}

func TestSoakFindsWhatGrows(t *testing.T) {
	t.Parallel()
	run := func(each func(i int) soakSample) error {
		var samples []soakSample
		for i := range 300 {
			samples = append(samples, each(i))
		}
		return checkNoGrowth(samples)
	}
	noise := func(i int) float64 { return float64(i % 7) }
	require.NoError(t, run(func(i int) soakSample {
		return soakSample{0, 50e6 + 1e6*noise(i), 200 + 5*noise(i), 30 + noise(i)}
	}))
	require.ErrorContains(t, run(func(i int) soakSample { return soakSample{0, 50e6 + 1e5*float64(i), 200, 30} }),
		"memory grew")
	require.ErrorContains(t, run(func(i int) soakSample { return soakSample{0, 50e6, 200 + float64(i)/4, 30} }),
		"goroutines grew")
	require.ErrorContains(t, run(func(i int) soakSample { return soakSample{0, 50e6, 200, 30 + float64(i)/20} }),
		"open files grew")
	require.ErrorContains(t, checkNoGrowth(make([]soakSample, 9)), "say nothing")
}

// Three nodes on three members of etcd go through random faults. Meanwhile streams, scrapes and page requests
// read them, and requests to resign, transfer and drain arrive. The resources of the node that is never killed
// must stay flat.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("takes as long as you like: -soak.for 1h")
	}
	s := startSoak(t)
	var looking sync.WaitGroup
	defer looking.Wait()
	ctx, end := context.WithTimeout(t.Context(), *soakFor)
	defer end()
	for range 3 {
		looking.Go(func() { s.followPages(ctx) })
	}
	looking.Go(func() { s.browse(ctx) })
	var samples []soakSample
	looking.Go(func() { samples = s.sample(ctx) })
	faults := s.faults(ctx)
	looking.Wait()
	t.Logf("%v, seed %d: %s; %d samples", *soakFor, *soakSeed, faults, len(samples))
	if *soakOut != "" {
		require.NoError(t, writeSoak(*soakOut, samples))
	}
	require.NoError(t, checkNoGrowth(samples))
	for _, n := range s.nodes {
		n.AwaitStatus(t, patience, "well again", func(st procs.Status) error {
			return errors.Join(equal("the nodes", len(st.Nodes), 3), equal("cluster_ready", st.ClusterReady, true))
		})
	}
}

type soak struct {
	t       *testing.T
	members *procs.Members
	nodes   []*procs.Node // the first one is never killed
	cfg     procs.NodeConfig
	client  *http.Client
	random  *rand.Rand
	began   time.Time
}

func startSoak(t *testing.T) *soak {
	s := &soak{t: t, members: kit.StartMembers(t, procs.Etcd37, 3, 0), client: &http.Client{},
		random: rand.New(rand.NewPCG(*soakSeed, 0)), began: time.Now()}
	t.Cleanup(s.client.CloseIdleConnections)
	t.Setenv("GOVERSE_ADMIN_TOKEN", soakToken)
	for range 3 {
		cfg := procs.NodeConfig{Etcd: strings.Join(s.members.Endpoints, ","), TTL: 5 * time.Second,
			Listen: kit.Addresses(t, 1)[0], HTTP: kit.Addresses(t, 1)[0], Flags: []string{"--log-level", "warn"}}
		s.nodes = append(s.nodes, kit.StartNode(t, cfg))
		s.cfg = cfg
	}
	for _, n := range s.nodes {
		n.AwaitStatus(t, patience, "ready", func(st procs.Status) error { return equal("the nodes", len(st.Nodes), 3) })
	}
	return s
}

// faults causes one fault after the other, each for a while, until ctx ends. It returns a summary of the
// numbers.
func (s *soak) faults(ctx context.Context) string {
	kinds := []string{"node killed", "node stopped", "node paused", "member of etcd paused", "resign", "drain"}
	done := map[string]int{}
	for ctx.Err() == nil {
		kind := kinds[s.random.IntN(len(kinds))]
		done[kind]++
		i := 1 + s.random.IntN(len(s.nodes)-1)
		switch kind {
		case "node killed":
			s.nodes[i].Kill(s.t)
			s.restart(i)
		case "node stopped":
			s.nodes[i].Signal(s.t, syscall.SIGTERM)
			s.nodes[i].Exit(s.t, patience)
			s.restart(i)
		case "node paused":
			n := s.nodes[s.random.IntN(len(s.nodes))]
			n.Freeze(s.t)
			pause(ctx, time.Duration(s.random.IntN(3000))*time.Millisecond)
			n.Thaw(s.t)
		case "member of etcd paused":
			m := s.members.Processes[s.random.IntN(len(s.members.Processes))]
			m.Freeze(s.t)
			pause(ctx, time.Duration(s.random.IntN(4000))*time.Millisecond)
			m.Thaw(s.t)
		case "resign":
			s.sendChange(ctx, "resign", "{}")
		case "drain":
			s.sendChange(ctx, "drain", fmt.Sprintf(`{"node": %q}`, s.nodes[i].Address))
			s.sendChange(ctx, "undrain", fmt.Sprintf(`{"node": %q}`, s.nodes[i].Address))
		}
		pause(ctx, time.Duration(1000+s.random.IntN(4000))*time.Millisecond)
	}
	var text []string
	for _, kind := range kinds {
		text = append(text, fmt.Sprintf("%d × %s", done[kind], kind))
	}
	return strings.Join(text, ", ")
}

func (s *soak) restart(i int) {
	cfg := s.cfg
	cfg.Listen, cfg.HTTP = s.nodes[i].Address, strings.TrimPrefix(s.nodes[i].Origin(), "http://")
	s.nodes[i] = kit.StartNode(s.t, cfg)
}

// sendChange sends a change to the first node, which may refuse it during a fault.
func (s *soak) sendChange(ctx context.Context, call, body string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.nodes[0].Origin()+"/cluster/admin/"+call,
		strings.NewReader(body))
	if err != nil {
		return
	}
	r.Header.Set("Authorization", "Bearer "+soakToken)
	r.Header.Set("Content-Type", "application/json")
	if resp, err := s.client.Do(r); err == nil {
		_ = resp.Body.Close()
	}
}

// followPages follows the pages of the first node like a dashboard, and reconnects when it is disconnected.
func (s *soak) followPages(ctx context.Context) {
	const pages = "/cluster/stream?page=/cluster/nodes&page=/cluster/leader&page=/cluster/shards&page=/cluster/events"
	for ctx.Err() == nil {
		some, end := context.WithTimeout(ctx, 20*time.Second) // like a tab that is closed
		r, err := http.NewRequestWithContext(some, http.MethodGet, s.nodes[0].Origin()+pages, nil)
		if err == nil {
			if resp, err := s.client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body))
				_ = resp.Body.Close()
			}
		}
		end()
	}
}

// browse requests each page, again and again.
func (s *soak) browse(ctx context.Context) {
	pages := []string{"/", "/livez", "/leaderz", "/readyz/reads", "/metrics", "/cluster/locks", "/cluster/effects",
		"/cluster/elections", "/cluster/objects?key=alice", "/no/such/page"}
	for i := 0; ctx.Err() == nil; i++ {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.nodes[0].Origin()+pages[i%len(pages)], nil)
		if err == nil {
			if resp, err := s.client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// sample samples the first node's resources until ctx ends. Samples that are not answered in time, because the
// node is paused, are missing.
func (s *soak) sample(ctx context.Context) (all []soakSample) {
	for ctx.Err() == nil {
		brief, cancel := context.WithTimeout(ctx, soakEvery)
		var values [3]float64
		var err error
		for i, name := range soakMetrics {
			if err == nil {
				values[i], err = s.nodes[0].Metric(brief, name)
			}
		}
		cancel()
		if err == nil {
			all = append(all, soakSample{time.Since(s.began), values[0], values[1], values[2]})
		}
		pause(ctx, soakEvery)
	}
	return all
}

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func writeSoak(path string, samples []soakSample) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	_ = w.Write(append([]string{"seconds"}, soakMetrics...)) // w.Error returns the error
	for _, s := range samples {
		number := func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
		_ = w.Write([]string{number(s.after.Seconds()), number(s.resident), number(s.goroutines), number(s.opened)})
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return f.Close()
}
