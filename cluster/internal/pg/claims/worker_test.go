//go:build unix

package claims

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// The environment that makes this program a worker of TestFaults.
const (
	workerURL, workerFile, workerDeadline = "GOVERSE_CLAIMS_URL", "GOVERSE_CLAIMS_FILE", "GOVERSE_CLAIMS_DEADLINE"

	workerNames   = 5 // names that the workers claim
	workerTasks   = 8 // concurrent claims of a worker
	maxTerms      = 1 << 14
	termSize      = 40
	witnessHeader = 8
)

func TestMain(m *testing.M) {
	if url := os.Getenv(workerURL); url != "" {
		if err := work(url); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	leaktest.SetParallel()
	goleak.VerifyTestMain(shared.Tests(m))
}

// term is what a worker records of a grant: the instants, on the monotonic clock that all processes share, between
// which it was certainly valid.
type term struct {
	name, token, shared, first, last int64
}

// witness is a file in memory that outlives the process that writes it.
type witness struct{ data []byte }

func openWitness(path string) (*witness, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const size = witnessHeader + maxTerms*termSize
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return &witness{data}, err
}

func (w *witness) close() error { return syscall.Munmap(w.data) }

func (w *witness) count() *int64 { return (*int64)(unsafe.Pointer(&w.data[0])) }

func (w *witness) at(i int64) *term {
	return (*term)(unsafe.Pointer(&w.data[witnessHeader+i*termSize]))
}

// terms returns the recorded terms that were valid twice at least.
func (w *witness) terms() (all []term) {
	for i := range min(*w.count(), maxTerms) {
		if t := *w.at(i); t.last != 0 {
			all = append(all, t)
		}
	}
	return all
}

func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano()
}

// work claims names, again and again, until the process is killed or standard input ends.
func work(url string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	w, err := openWitness(os.Getenv(workerFile))
	if err != nil {
		return err
	}
	deadline, err := time.ParseDuration(os.Getenv(workerDeadline))
	if err != nil {
		return err
	}
	cfg := config(url, deadline, &logtest.Buffer{})
	var k *Keeper
	for k == nil {
		if k, err = Open(ctx, cfg); err != nil && ctx.Err() != nil {
			return nil
		}
	}
	var mu sync.Mutex // of the witness
	var tasks sync.WaitGroup
	for range workerTasks {
		tasks.Go(func() {
			for ctx.Err() == nil {
				name := rand.Int64N(workerNames)
				spec := Spec{Name: fmt.Sprint("name ", name), Shared: rand.IntN(4) == 0, Try: rand.IntN(4) == 0}
				c, err := k.Acquire(ctx, spec)
				if errors.Is(err, lifecycle.ErrStopped) {
					return
				}
				if err != nil {
					continue
				}
				mu.Lock()
				record(w, name, c)
				mu.Unlock()
				_, _ = c.Release(ctx)
			}
		})
	}
	tasks.Wait()
	closing, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	return k.Close(closing)
}

// record records the term of a claim, and holds it for a moment or for longer than a deadline.
func record(w *witness, name int64, c *Claim) {
	i := *w.count()
	if i >= maxTerms {
		return
	}
	t := w.at(i)
	t.name, t.token = name, c.Token()
	if c.spec.Shared {
		t.shared = 1
	}
	*w.count() = i + 1
	hold := time.Duration(rand.Int64N(int64(2 * time.Millisecond)))
	if rand.IntN(50) == 0 {
		hold *= 200
	}
	again := time.NewTicker(100 * time.Microsecond)
	defer again.Stop()
	// It is valid at some instant between before and the end of Valid.
	for end := time.Now().Add(hold); ; <-again.C {
		before := monotonic()
		if !c.Valid() {
			return
		}
		if t.first == 0 {
			t.first = monotonic()
		} else {
			t.last = before
		}
		if time.Now().After(end) {
			return
		}
	}
}
