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

// Recorder records the part of a history that one process sees, as JSON lines. All methods are safe for
// concurrent use.
type Recorder struct {
	process string
	ids     atomic.Int64
	stop    chan struct{}
	wg      sync.WaitGroup // samplers

	mu      sync.Mutex
	w       io.Writer
	err     error // the first write error
	lives   map[string]int
	stopped bool
}

// NewRecorder starts a recording. process names this process in reports; its pid is appended, so a restarted
// process is another one. Each line goes to w at once, in a single Write. The recorder never closes w. After a
// write error nothing more is recorded; Stop returns the error.
func NewRecorder(w io.Writer, process string) *Recorder {
	r := &Recorder{process: fmt.Sprintf("%s/%d", process, os.Getpid()), w: w,
		stop: make(chan struct{}), lives: map[string]int{}}
	r.writeLines(recordLine{Process: &Process{Name: r.process, PID: os.Getpid(), At: Now(), Wall: time.Now()}})
	return r
}

// Add samples a node every millisecond, and at once when it signals a change, until Stop. A name may be used
// again for a node that replaces one that ended; the history then has two lives of that name. After Stop, Add
// does nothing.
func (r *Recorder) Add(n Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	s := &sampler{node: n, who: NodeLife{Process: r.process, Node: n.Name, Life: r.lives[n.Name]},
		every: sampleEvery, write: r.writeLines, stop: r.stop}
	r.lives[n.Name]++
	r.wg.Go(s.run)
}

// Stop ends the sampling, waits until everything is written, and returns the first write error. Marks and
// operations are still recorded afterwards. Stopping twice is harmless.
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

// BeginFault records the start of a fault at a node, or at all nodes if node is "". The fault lasts until end is
// called, which records its end. Call BeginFault before the fault is injected, and end after it is undone, because
// the mark must cover it.
func (r *Recorder) BeginFault(node, name, text string) (end func()) {
	m := Mark{Process: r.process, ID: r.ids.Add(1), Node: node, Name: name, Text: text, From: Now()}
	r.writeLines(recordLine{Mark: &m})
	return func() {
		m := m
		m.To = Now()
		r.writeLines(recordLine{Mark: &m})
	}
}

// Intervene makes an intervention by calling f, and records its start and end. It returns the error of f. A failed
// intervention is recorded as well, because it may have taken effect.
func (r *Recorder) Intervene(node, name string, f func() error) error {
	end := r.BeginFault(node, name, "")
	defer end()
	return f()
}

// Mark records an intervention after the fact, for example one found in a log. The recorder sets Process and
// ID.
func (r *Recorder) Mark(m Mark) {
	m.Process, m.ID = r.process, r.ids.Add(1)
	r.writeLines(recordLine{Mark: &m})
}

// writeLines passes lines to the writer in one piece. A crash then leaves at most one unfinished line.
func (r *Recorder) writeLines(lines ...recordLine) {
	var text []byte
	for _, l := range lines {
		one, err := json.Marshal(l)
		if err != nil {
			panic("history: " + err.Error()) // plain structs can always be encoded
		}
		text = append(append(text, one...), '\n')
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		_, r.err = r.w.Write(text)
	}
}
