package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// ObjectSource is a Source with objects to show; *cluster.Cluster implements it.
type ObjectSource interface {
	// Objects returns the handle for figures and keys, or nil while there is none.
	Objects() *objects.Objects
}

// objectView gives access to a node's objects. It must not block.
type objectView interface {
	Stats() objects.Stats
	Find(key string) (owner string, here []objects.Activity)
}

// objectsOf returns the objects of a source, nil if it has none to show.
func objectsOf(source Source) objectView {
	if s, ok := source.(ObjectSource); ok {
		if o := s.Objects(); o != nil {
			return o
		}
	}
	return nil
}

// Objects is the body of /cluster/objects: this node's part in the objects. Counters start with the node.
type Objects struct {
	NodeID   string          `json:"node_id"` // advertise address
	Running  int             `json:"running"` // turns
	Calls    ObjectCalls     `json:"calls"`
	Services []ObjectService `json:"services"`      // registered on this node, by name
	Key      *ObjectKey      `json:"key,omitempty"` // the requested one
}

// ObjectCalls counts the unary calls that this node sent to objects, including those from outside that it
// received. A call that was retried is counted each time.
type ObjectCalls struct {
	Local  int64 `json:"local"`  // to objects on this node
	Remote int64 `json:"remote"` // to objects on other nodes
	// Retried counts retries: no node owned the shard, or the shard had moved, or its node was gone.
	Retried int64 `json:"retried"`
	Lost    int64 `json:"lost"` // calls that lost their connection: they may have run, or still run
}

// ObjectService is one service on this node.
type ObjectService struct {
	Name    string         `json:"name"`
	Active  int64          `json:"active"`  // objects
	Waiting int64          `json:"waiting"` // calls
	Methods []ObjectMethod `json:"methods"`
	// Deactivations counts deactivations by reason.
	Deactivations map[objects.Reason]int64 `json:"deactivations"`
	Panics        int64                    `json:"panics"`
	// Latency is the duration of methods, of one call in eight. Queued is the time that calls waited for their
	// turn, of those that had to wait and were started.
	Latency ObjectTimes `json:"latency"`
	Queued  ObjectTimes `json:"queued"`
}

// ObjectMethod counts the calls of a method that ran on this node, by result.
type ObjectMethod struct {
	Name  string           `json:"name"`  // without the service's name
	Calls map[string]int64 `json:"calls"` // by gRPC code: OK, NotFound, ...
}

// ObjectTimes summarizes a histogram. A quantile is given as the bound of the histogram that it does not exceed.
// It is absent without data, and above the last bound.
type ObjectTimes struct {
	Count     int64    `json:"count"`
	Mean      float64  `json:"mean_seconds"`
	P50AtMost *float64 `json:"p50_at_most_seconds,omitempty"`
	P99AtMost *float64 `json:"p99_at_most_seconds,omitempty"`
}

// ObjectKey locates the objects of one key. Bytes of the key that are not UTF-8 are shown as U+FFFD.
type ObjectKey struct {
	Key   string `json:"key"`
	Shard *int   `json:"shard,omitempty"` // absent with sharding off
	Owner string `json:"owner"`           // advertise address as far as this node knows, "" if no node owns the shard
	// Here lists the key's objects on this node, by service.
	Here []ObjectActivity `json:"here"`
}

// ObjectActivity is one object on this node.
type ObjectActivity struct {
	Service string  `json:"service"`
	State   string  `json:"state"` // activating, active, deactivating; waiting: calls wait for the shard
	Epoch   int64   `json:"epoch"`
	Waiting int     `json:"waiting"`     // calls
	Running int     `json:"running"`     // calls
	Age     float64 `json:"age_seconds"` // since it was activated
}

func (a *api) serveObjects(w http.ResponseWriter, r *http.Request) {
	st, view := a.source.Status(), a.objects()
	query, err := url.ParseQuery(r.URL.RawQuery)
	key, asked := query.Get("key"), query.Has("key")
	switch {
	case !st.State.Running():
		writeUnavailable(w, notRunningError(st))
		return
	case view == nil:
		writeProblem(w, notShownKind, "this program shows no objects: ask a node that hosts them")
		return
	case err != nil:
		writePlainProblem(w, http.StatusBadRequest, "write the query as ?key=NAME, percent-encoded: "+logtext.OneLine(err))
		return
	case asked && (key == "" || len(key) > objects.MaxKey):
		writePlainProblem(w, http.StatusBadRequest, fmt.Sprintf("a key has 1 to %d bytes, and this one %d: write ?key=NAME",
			objects.MaxKey, len(key)))
		return
	}
	body := newObjects(st.NodeID, view.Stats())
	if asked {
		body.Key = newObjectKey(key, st.Shards.Shards, view)
	}
	writeJSON(w, http.StatusOK, body)
}

func newObjects(self string, st objects.Stats) Objects {
	body := Objects{NodeID: self, Running: st.Running, Services: []ObjectService{},
		Calls: ObjectCalls{Local: st.Local, Remote: st.Remote, Retried: st.Retried, Lost: st.Lost}}
	for _, s := range st.Services {
		view := ObjectService{Name: s.Name, Active: s.Active, Waiting: s.Waiting, Methods: []ObjectMethod{},
			Deactivations: s.Deactivations, Panics: s.Panics, Latency: summarizeTimes(s.Latency),
			Queued: summarizeTimes(s.Queued)}
		for _, m := range s.Methods {
			calls := map[string]int64{}
			for code, n := range m.Calls {
				calls[code.String()] += n
			}
			view.Methods = append(view.Methods, ObjectMethod{Name: m.Name, Calls: calls})
		}
		body.Services = append(body.Services, view)
	}
	return body
}

func newObjectKey(key string, shards int, view objectView) *ObjectKey {
	owner, here := view.Find(key)
	k := &ObjectKey{Key: key, Owner: owner, Here: []ObjectActivity{}}
	if shards > 0 {
		n := shard.Of(key, shards)
		k.Shard = &n
	}
	for _, o := range here {
		k.Here = append(k.Here, ObjectActivity{Service: o.Service, State: o.State, Epoch: o.Epoch, Waiting: o.Waiting,
			Running: o.Running, Age: o.Age.Seconds()})
	}
	return k
}

func summarizeTimes(d stats.Durations) ObjectTimes {
	t := ObjectTimes{Count: d.Count, P50AtMost: quantile(d, 50), P99AtMost: quantile(d, 99)}
	if d.Count > 0 {
		t.Mean = (d.Sum / time.Duration(d.Count)).Seconds()
	}
	return t
}

// quantile returns the bound, in seconds, that the given percentage of durations does not exceed.
func quantile(d stats.Durations, percent int64) *float64 {
	if d.Count == 0 {
		return nil
	}
	for _, b := range d.Buckets {
		if b.Count*100 >= d.Count*percent {
			at := b.AtMost.Seconds()
			return &at
		}
	}
	return nil
}
