package httpapi

import (
	"net/http"
	"time"

	"github.com/goverse/goverse/cluster/automation"
)

// Automations is the body of /cluster/automations: the program's automations on this node.
type Automations struct {
	NodeID      string           `json:"node_id"` // advertise address
	Automations []AutomationView `json:"automations"`
}

// AutomationView is one automation on this node.
type AutomationView struct {
	Name       string     `json:"name"`
	Active     bool       `json:"active"`      // it executes items here
	LeaderOnly bool       `json:"leader_only"` // only the holder of a leader lock executes items
	Token      int64      `json:"token"`       // of the last term here; 0 before the first, and without a leader lock
	Since      *time.Time `json:"since,omitempty"`
	Workers    int        `json:"workers"` // items that may be executed here at a time
	Running    int        `json:"running"` // items that are being executed here

	// The numbers of items that the source counts, absent if unknown. Due items may be executed now, waiting ones have
	// failed and are due after a pause, and parked ones are not executed again.
	Due     *int64 `json:"due,omitempty"`
	Waiting *int64 `json:"waiting,omitempty"`
	Parked  *int64 `json:"parked,omitempty"`

	Done      int64      `json:"done"` // items since the program started
	PerSecond float64    `json:"per_second"`
	DoneAt    *time.Time `json:"done_at,omitempty"`
	Retries   int64      `json:"retries"`
	GivenUp   int64      `json:"given_up"` // items parked here
	Failures  int64      `json:"failures"`

	LastItem    string     `json:"last_item,omitempty"` // that last_error is about
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
}

func (a *api) serveAutomations(w http.ResponseWriter, _ *http.Request) {
	body := Automations{NodeID: a.source.Status().NodeID, Automations: []AutomationView{}}
	for _, s := range a.opts.Automations() {
		body.Automations = append(body.Automations, newAutomationView(s))
	}
	writeJSON(w, http.StatusOK, body)
}

func newAutomationView(s automation.Status) AutomationView {
	return AutomationView{Name: s.Name, Active: s.Active, LeaderOnly: s.LeaderOnly, Token: s.Token,
		Since: timeOrNil(s.Since), Workers: s.Workers, Running: s.Running, Due: countOrNil(s.Due),
		Waiting: countOrNil(s.Waiting), Parked: countOrNil(s.Parked), Done: s.Done, PerSecond: s.PerSecond,
		DoneAt: timeOrNil(s.DoneAt), Retries: s.Retries, GivenUp: s.GivenUp, Failures: s.Failures, LastItem: s.LastItem,
		LastError: s.LastError, LastErrorAt: timeOrNil(s.LastErrorAt)}
}

// countOrNil returns a number that is known.
func countOrNil(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
