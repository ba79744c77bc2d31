package httpapi

import (
	"net/http"
	"time"

	"github.com/goverse/goverse/cluster/processor"
)

// Processors is the body of /cluster/processors: the program's processors on this node.
type Processors struct {
	NodeID     string          `json:"node_id"` // advertise address
	Processors []ProcessorView `json:"processors"`
}

// ProcessorView is one processor on this node.
type ProcessorView struct {
	Name     string     `json:"name"`
	Leading  bool       `json:"leading"` // it processes events here
	Paused   bool       `json:"paused"`  // it handles no further event here until it is resumed
	Token    int64      `json:"token"`   // of the last term here, 0 before the first
	Since    *time.Time `json:"since,omitempty"`
	Position string     `json:"position"`      // as far as this node knows
	Lag      *int64     `json:"lag,omitempty"` // absent if unknown

	Handled   int64      `json:"handled"` // events since the program started
	PerSecond float64    `json:"per_second"`
	HandledAt *time.Time `json:"handled_at,omitempty"`
	Batches   int64      `json:"batches"`
	Retries   int64      `json:"retries"`
	Parked    int64      `json:"parked"`
	Failures  int64      `json:"failures"`

	Attempts    int        `json:"attempts"` // failed attempts at the next event
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
}

func (a *api) serveProcessors(w http.ResponseWriter, _ *http.Request) {
	body := Processors{NodeID: a.source.Status().NodeID, Processors: []ProcessorView{}}
	for _, s := range a.opts.Processors() {
		body.Processors = append(body.Processors, newProcessorView(s))
	}
	writeJSON(w, http.StatusOK, body)
}

func newProcessorView(s processor.Status) ProcessorView {
	return ProcessorView{Name: s.Name, Leading: s.Leading, Paused: s.Paused, Token: s.Token, Since: timeOrNil(s.Since),
		Position: string(s.Position), Lag: countOrNil(s.Lag), Handled: s.Handled, PerSecond: s.PerSecond,
		HandledAt: timeOrNil(s.HandledAt), Batches: s.Batches, Retries: s.Retries, Parked: s.Parked, Failures: s.Failures,
		Attempts: s.Attempts, LastError: s.LastError, LastErrorAt: timeOrNil(s.LastErrorAt)}
}
