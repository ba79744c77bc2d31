package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
)

// Events is the body of /cluster/events: the newest events of the cluster's event log, oldest first.
type Events struct {
	// Source is log if the events come from etcd. It is memory if etcd does not answer; the events are then the
	// ones that this node observed itself.
	Source string        `json:"source"`
	ReadAt time.Time     `json:"read_at"`
	Events []event.Event `json:"events"`
}

// Values of Events.Source.
const (
	EventsOfLog    = "log"
	EventsOfMemory = "memory"
)

// eventQuery holds the parameters of a request for events.
type eventQuery struct {
	since time.Time
	limit int
	types []string // empty: all
}

// maxTypes limits the types in one request.
const maxTypes = 100

// readEventQuery reads ?limit=N&since=TIME&types=TYPE,TYPE, with TIME in RFC 3339 or as an age. It answers a request
// with a bad query.
func readEventQuery(w http.ResponseWriter, r *http.Request, now time.Time) (q eventQuery, ok bool) {
	ok = readQuery(w, r, "?limit=N&since=TIME&types=TYPE,TYPE", map[string]queryParameter{
		"limit": limitParameter(&q.limit),
		"since": func(value string) (err error) {
			q.since, err = readSince(value, now)
			return err
		},
		"types": func(value string) error {
			if q.types = strings.Split(value, ","); value == "" || len(q.types) > maxTypes {
				return fmt.Errorf("types=%.70q: give from 1 to %d types, with commas between them", value, maxTypes)
			}
			return nil
		}})
	return q, ok
}

// readSince reads a time of RFC 3339, or an age.
func readSince(value string, now time.Time) (since time.Time, err error) {
	if ago, derr := time.ParseDuration(value); derr == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if since, err = time.Parse(time.RFC3339, value); err != nil {
		err = fmt.Errorf("since=%q: give how long ago, like 1h30m, or a time like 2026-11-24T08:00:00Z", value)
	}
	return since, err
}

// serveEvents serves the event log, which is read once a second for all requests.
func (a *api) serveEvents(w http.ResponseWriter, r *http.Request) {
	q, ok := readEventQuery(w, r, time.Now())
	if !ok {
		return
	}
	source, ok := runningSource[EventSource](a, w, "events")
	if !ok {
		return
	}
	body, err := a.readLog(r.Context(), source.EventLog())
	switch {
	case errors.Is(err, cluster.ErrNotStarted), errors.Is(err, cluster.ErrStopped):
		writeErrorProblem(w, err)
		return
	case err != nil:
		body = Events{Source: EventsOfMemory, ReadAt: time.Now().UTC(), Events: source.EventLog().Recent()}
	}
	body.Events = selectEvents(body.Events, q)
	writeJSON(w, http.StatusOK, body)
}

// readLog reads the whole log, once a second for all requests.
func (a *api) readLog(ctx context.Context, log event.Log) (Events, error) {
	found, err := a.lists.get(ctx, "events", a.opts.LeaderTimeout, func(ctx context.Context) (any, error) {
		events, _, err := log.List(ctx, event.Query{})
		return Events{Source: EventsOfLog, ReadAt: time.Now().UTC(), Events: events}, err
	})
	body, _ := found.(Events)
	return body, err
}

// selectEvents returns the requested events in a new slice.
func selectEvents(all []event.Event, q eventQuery) []event.Event {
	out := []event.Event{}
	for _, e := range all {
		if !e.Time.Before(q.since) && (len(q.types) == 0 || slices.Contains(q.types, string(e.Type))) {
			out = append(out, e)
		}
	}
	return out[max(0, len(out)-q.limit):]
}

// streamEvents sends each event of the log as it is recorded. A client that returns with a Last-Event-ID gets the
// events after it; others get new events only. The id of the stream is the Seq up to which the client has
// everything. It comes with the last event of a transaction. A client that loses its connection before that gets
// the earlier events of the transaction twice.
func (a *api) streamEvents(w http.ResponseWriter, r *http.Request) {
	source, ok := runningSource[EventSource](a, w, "events")
	if !ok {
		return
	}
	var after int64
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		var err error
		if after, err = strconv.ParseInt(last, 10, 64); err != nil || after < 0 {
			writePlainProblem(w, http.StatusBadRequest, fmt.Sprintf("Last-Event-ID %q: give the id of an event of this stream",
				last))
			return
		}
	} else {
		read, err := a.readLog(r.Context(), source.EventLog())
		if err != nil {
			a.writeReadError(w, err)
			return
		}
		for _, e := range read.Events {
			after = max(after, e.Seq)
		}
	}
	if !a.lists.readRate.Allow() { // following the log costs a watch in etcd
		writeErrorProblem(w, errReadLimit)
		return
	}
	s := newStream(w, r)
	defer s.close()
	id := func(seq int64) string { return strconv.FormatInt(seq, 10) }
	if s.sendEvent(id(after), "beat", []byte("{}")) != nil { // lets the client return even before the first event
		return
	}
	// It ends when the client has gone, or the node stops.
	_ = source.EventLog().ForEach(s.ctx, after, func(e event.Event) error {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if e.More {
			return s.sendEvent("", string(e.Type), data)
		}
		return s.sendEvent(id(e.Seq), string(e.Type), data)
	})
}
