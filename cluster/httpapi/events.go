package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
)

// Events is the body of /cluster/events: the newest events of the cluster's event log, oldest first.
type Events struct {
	// Source is log where they are those of etcd, and memory where etcd does not answer and they are what this node saw
	// itself.
	Source string        `json:"source"`
	ReadAt time.Time     `json:"read_at"`
	Events []event.Event `json:"events"`
}

// What Events.Source says.
const (
	EventsOfLog    = "log"
	EventsOfMemory = "memory"
)

// eventQuery is what the events were asked for.
type eventQuery struct {
	since time.Time
	limit int
}

// readEvents reads ?limit=N&since=TIME, where TIME is RFC 3339 or how long ago. It answers where something is wrong.
func readEvents(w http.ResponseWriter, r *http.Request, now time.Time) (q eventQuery, ok bool) {
	ok = readQuery(w, r, "?limit=N&since=TIME", map[string]parameter{"limit": limitOf(&q.limit),
		"since": func(value string) (err error) {
			if ago, derr := time.ParseDuration(value); derr == nil && ago >= 0 {
				q.since = now.Add(-ago)
			} else if q.since, err = time.Parse(time.RFC3339, value); err != nil {
				return fmt.Errorf("since=%q: give how long ago, like 1h30m, or a time like 2026-11-24T08:00:00Z", value)
			}
			return nil
		}})
	return q, ok
}

// events reads the log once a second for all that ask.
func (a *api) events(w http.ResponseWriter, r *http.Request) {
	q, ok := readEvents(w, r, time.Now())
	if !ok {
		return
	}
	c := a.cluster(w, "events")
	if c == nil {
		return
	}
	body, err := a.readLog(r.Context(), c)
	switch {
	case errors.Is(err, cluster.ErrNotStarted), errors.Is(err, cluster.ErrStopped):
		fail(w, err)
		return
	case err != nil:
		body = Events{Source: EventsOfMemory, ReadAt: time.Now().UTC(), Events: c.Events().Recent()}
	}
	body.Events = newest(body.Events, q)
	writeJSON(w, http.StatusOK, body)
}

// readLog reads the whole log, once a second for all that ask.
func (a *api) readLog(ctx context.Context, c *cluster.Cluster) (Events, error) {
	found, err := a.lists.get(ctx, "events", a.opts.LeaderTimeout, func(ctx context.Context) (any, error) {
		events, err := c.Events().List(ctx, cluster.EventQuery{})
		return Events{Source: EventsOfLog, ReadAt: time.Now().UTC(), Events: events}, err
	})
	body, _ := found.(Events)
	return body, err
}

// newest are the events that were asked for: a list of its own.
func newest(all []event.Event, q eventQuery) []event.Event {
	out := []event.Event{}
	for _, e := range all {
		if !e.Time.Before(q.since) {
			out = append(out, e)
		}
	}
	return out[max(0, len(out)-q.limit):]
}

// eventStream sends each event of the log, as it is recorded: those after the Last-Event-ID of a client that comes
// back, else those to come. The id of the stream is up to which Seq a client has all: it comes with the last event of
// those recorded in one transaction, so a client that lost its connection before that gets the first of them twice.
func (a *api) eventStream(w http.ResponseWriter, r *http.Request) {
	c := a.cluster(w, "events")
	if c == nil {
		return
	}
	var after int64
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		var err error
		if after, err = strconv.ParseInt(last, 10, 64); err != nil || after < 0 {
			writeError(w, http.StatusBadRequest, fmt.Sprintf("Last-Event-ID %q: give the id of an event of this stream", last))
			return
		}
	} else {
		read, err := a.readLog(r.Context(), c)
		if err != nil {
			fail(w, err)
			return
		}
		for _, e := range read.Events {
			after = max(after, e.Seq)
		}
	}
	if !a.lists.pace.Allow() { // to follow the log is to watch it in etcd
		fail(w, errTooOften)
		return
	}
	s := newStream(w, r)
	defer s.close()
	id := func(seq int64) string { return strconv.FormatInt(seq, 10) }
	if s.send(id(after), "beat", []byte("{}")) != nil { // so that it can also come back before the first event
		return
	}
	_ = c.Events().Follow(s.ctx, after, func(e event.Event) error { // the client has gone, or the node stops
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if e.More {
			return s.send("", string(e.Type), data)
		}
		return s.send(id(e.Seq), string(e.Type), data)
	})
}
