package history

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Recorder writes one process's part of a history, a JSON line for each thing. All
// methods are safe for concurrent use.
type Recorder struct {
	process string
	ids     atomic.Int64
	stop    chan struct{}
	wg      sync.WaitGroup // samplers

	mu      sync.Mutex
	w       io.Writer
	err     error // the first of writing
	lives   map[string]int
	stopped bool
}

// NewRecorder begins a recording. Process names this process in reports; its id is
// added, so that a process that is started again is another one. Each line goes to w
// in one Write, at once. The recorder never closes w. An error of writing is reported by
// Stop; nothing is recorded after it.
func NewRecorder(w io.Writer, process string) *Recorder {
	r := &Recorder{process: fmt.Sprintf("%s/%d", process, os.Getpid()), w: w,
		stop: make(chan struct{}), lives: map[string]int{}}
	r.write(line{Process: &Process{Name: r.process, PID: os.Getpid(), At: Now(), Wall: time.Now()}})
	return r
}

// Add samples a node every millisecond, at once when it signals a change, until
// Stop. A name may be used again for a node that takes the place of one that ended;
// it is another life then. After Stop it does nothing.
func (r *Recorder) Add(n Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	s := &sampler{node: n, who: Who{Process: r.process, Node: n.Name, Life: r.lives[n.Name]},
		every: sampleEvery, write: r.write, stop: r.stop}
	r.lives[n.Name]++
	r.wg.Go(s.run)
}

// Stop ends the sampling, waits until it has ended and all is written, and returns
// the first error of writing. Marks and operations are still recorded. Stopping
// twice is harmless.
func (r *Recorder) Stop() error {
	r.mu.Lock()
	if !r.stopped {
		r.stopped = true
		close(r.stop)
	}
	r.mu.Unlock()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Begin records that a fault begins: at a node, or, with node "", at all of them.
// It ends, and that is recorded, when end is called, or never. Call Begin before
// the fault is done and end after it is undone: the marked time is to cover it.
func (r *Recorder) Begin(node, name, text string) (end func()) {
	m := Mark{Process: r.process, ID: r.ids.Add(1), Node: node, Name: name, Text: text, From: Now()}
	r.write(line{Mark: &m})
	return func() {
		m := m
		m.To = Now()
		r.write(line{Mark: &m})
	}
}

// Do does an intervention and records between which instants that was. It returns
// what f returned; one that failed is recorded as well, for it may have worked.
func (r *Recorder) Do(node, name string, f func() error) error {
	end := r.Begin(node, name, "")
	defer end()
	return f()
}

// Mark records an intervention after the fact, such as one that was found in a log.
// Process and ID are set by the recorder.
func (r *Recorder) Mark(m Mark) {
	m.Process, m.ID = r.process, r.ids.Add(1)
	r.write(line{Mark: &m})
}

// write hands lines to the writer, in one piece: a crash then leaves at most half of
// the last one.
func (r *Recorder) write(lines ...line) {
	var text []byte
	for _, l := range lines {
		one, err := json.Marshal(l)
		if err != nil {
			panic("history: " + err.Error()) // plain structs always can be
		}
		text = append(append(text, one...), '\n')
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		_, r.err = r.w.Write(text)
	}
}
