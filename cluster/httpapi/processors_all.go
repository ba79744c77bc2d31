package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/state"
)

// AllProcessors is the body of /cluster/processors/all: the processors of the whole cluster, from the checkpoints.
type AllProcessors struct {
	Page
	Processors []ManagedProcessor `json:"processors"` // in the order of the checkpoints
}

// ManagedProcessor is one processor in the whole cluster.
type ManagedProcessor struct {
	Name     string `json:"name"`
	Position string `json:"position"` // as stored
	Token    int64  `json:"token"`    // of the process that claimed the checkpoint last
	// Paused is the last request of an operator, and PauseAcknowledged reports whether no event is handled any more.
	Paused            bool       `json:"paused"`
	PauseAcknowledged bool       `json:"pause_acknowledged"`
	PauseReason       string     `json:"pause_reason,omitempty"`
	PauseBy           string     `json:"pause_by,omitempty"` // the caller of the last pause or resumption
	PauseAt           *time.Time `json:"pause_at,omitempty"` // by that caller's clock
	Replay            string     `json:"replay,omitempty"`   // the position that a rewound processor had before
	Parked            int64      `json:"parked"`             // parked events now
	// Report is the last report of a leader. It is old if its leader is gone: see ReportedAt.
	Report *ProcessorReport `json:"report,omitempty"`
}

// ProcessorReport is the report of a processor's leader, with the time by its own clock.
type ProcessorReport struct {
	Node       string    `json:"node"`
	ReportedAt time.Time `json:"reported_at"`
	// Current is false if another leader has claimed the checkpoint since.
	Current bool `json:"current"`
	ProcessorView
}

// ParkedEvents is the body of /cluster/processors/NAME/parked: the events that a processor has given up.
type ParkedEvents struct {
	Processor string        `json:"processor"`
	Parked    []ParkedEvent `json:"parked"`    // oldest first; at most 1000
	Truncated bool          `json:"truncated"` // there are more
}

// ParkedEvent is one parked event.
type ParkedEvent struct {
	Position string    `json:"position"`
	Error    string    `json:"error"`
	Attempts int       `json:"attempts"`
	Token    int64     `json:"token"` // of the term that gave it up
	At       time.Time `json:"at"`
	Retry    bool      `json:"retry"` // a retry is requested and not yet done
}

// checkpoints returns the checkpoints whose processors are managed, and the cluster, which is nil if the source has
// none and Options.Checkpoints are there. If there are none, or the node does not run, it answers the request and
// returns false.
func (a *api) checkpoints(w http.ResponseWriter, what string) (m processor.Manager, c *cluster.Cluster, ok bool) {
	if _, known := clusterOf(a.source); !known && a.opts.Checkpoints != nil {
		st := a.source.Status()
		if ok = st.State.Running(); !ok {
			writeUnavailable(w, notRunningError(st))
		}
		return a.recorded(a.opts.Checkpoints), nil, ok
	}
	switch c = a.runningCluster(w, what); {
	case c == nil:
		return nil, nil, false
	case a.opts.Checkpoints != nil:
		return c.Events().RecordRequests(a.opts.Checkpoints), c, true
	}
	return c.Checkpoints(), c, true
}

// recorded returns checkpoints whose requests are recorded, if the source has a log for that.
func (a *api) recorded(m processor.Manager) processor.Manager {
	source, ok := a.source.(EventSource)
	if !ok {
		return m
	}
	log, ok := source.EventLog().(interface {
		RecordRequests(m processor.Manager) processor.Manager
	})
	if !ok {
		return m
	}
	return log.RecordRequests(m)
}

func (a *api) serveAllProcessors(w http.ResponseWriter, r *http.Request) {
	var q listQuery
	if !readListQuery(w, r, &q, nil) {
		return
	}
	checkpoints, _, ok := a.checkpoints(w, "processors")
	if !ok {
		return
	}
	a.answerList(w, r, "processors", q, func(ctx context.Context) (any, error) {
		found, more, err := checkpoints.List(ctx, processor.Query{After: q.after, Limit: q.limit})
		page, err := newPage(found, more, err, func(s processor.Standing) string { return s.Name })
		body := AllProcessors{Page: page, Processors: []ManagedProcessor{}}
		for _, s := range found {
			body.Processors = append(body.Processors, newManagedProcessor(s))
		}
		return body, err
	})
}

func newManagedProcessor(s processor.Standing) ManagedProcessor {
	p := ManagedProcessor{Name: s.Name, Position: string(s.Position), Token: s.Token, Paused: s.Pause.Paused,
		PauseAcknowledged: s.PauseAcknowledged(), PauseReason: s.Pause.Reason, PauseBy: s.Pause.By,
		PauseAt: timeOrNil(s.Pause.At), Replay: string(s.Replay), Parked: s.Parked}
	if s.Report != nil {
		p.Report = &ProcessorReport{Node: s.Report.Node, ReportedAt: s.Report.At, Current: s.ReportCurrent(),
			ProcessorView: newProcessorView(s.Report.Status)}
	}
	return p
}

func (a *api) serveParked(w http.ResponseWriter, r *http.Request, name string) {
	checkpoints, _, ok := a.checkpoints(w, "processors")
	if !ok {
		return
	}
	if err := state.CheckName("processor", name); err != nil {
		writeErrorProblem(w, err)
		return
	}
	read := func(ctx context.Context) (any, error) { return readParked(ctx, checkpoints, name) }
	body, err := a.lists.get(r.Context(), parkedQuestion(name), a.opts.LeaderTimeout, read)
	if err != nil {
		a.writeReadError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, body)
}

// parkedQuestion is the question for a processor's parked events.
func parkedQuestion(name string) string { return "parked " + name }

func readParked(ctx context.Context, m processor.Manager, name string) (any, error) {
	now, err := m.Look(ctx, name)
	if err != nil {
		return nil, err
	}
	parked, err := m.Parked(ctx, name)
	if err != nil {
		return nil, err
	}
	body := ParkedEvents{Processor: name, Parked: []ParkedEvent{}, Truncated: int64(len(parked)) < now.Parked}
	for _, p := range parked {
		body.Parked = append(body.Parked, ParkedEvent{Position: string(p.Position), Error: p.Error, Attempts: p.Attempts,
			Token: p.Token, At: p.Time, Retry: p.Retry})
	}
	return body, nil
}
