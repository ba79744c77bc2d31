package httpapi

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goverse/goverse/cluster/internal/problem"
)

// operation describes one route.
type operation struct {
	id, summary string
	params      []object
	body        any         // of a request; nil: none
	answers     map[int]any // by status; plainText means text
	problems    []int       // statuses with problems as responses
}

type plainText struct{}

// htmlPage marks a page for people.
type htmlPage struct{}

// streamEvents marks a stream of server-sent events.
type eventStream struct{}

// empty is a request without fields.
type empty struct{}

func queryParam(name, says string, schema object) object {
	return object{"name": name, "in": "query", "description": says, "schema": schema}
}

var listParams = []object{
	queryParam("limit", "How many to list at most.",
		object{"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit}),
	queryParam("after", "The next of the list before, as it is: those behind it are listed.",
		object{"type": "string", "minLength": 1, "maxLength": maxAfter}),
}

func listing(id, summary string, body any, more ...object) operation {
	return operation{id: id, summary: summary, params: append(slices.Clone(listParams), more...),
		answers: map[int]any{200: body}, problems: []int{400, 404, 503}}
}

func showing(id, summary string, body any, problems ...int) operation {
	return operation{id: id, summary: summary, answers: map[int]any{200: body}, problems: problems}
}

func streamed(id, summary string, problems ...int) operation {
	return operation{id: id, summary: summary, answers: map[int]any{200: eventStream{}}, problems: problems}
}

// changing describes an admin call. All admin calls share the same errors.
func changing(id, summary string, body, answer any) operation {
	return operation{id: id, summary: summary, body: body, answers: map[int]any{200: answer},
		problems: []int{400, 401, 403, 404, 409, 413, 415, 429, 503, 504}}
}

// operations describes every route.
func operations() map[string]operation {
	drain := changing("drain", "Have a node give its shards up and get none. 202: it goes on draining.", DrainRequest{},
		Drained{})
	drain.answers[202] = Drained{}
	objectsPage := showing("objects", "This node's part in the objects, with ?key= those of one key.", Objects{}, 400, 404,
		503)
	objectsPage.params = []object{queryParam("key", "Show the objects of this key.",
		object{"type": "string", "minLength": 1})}
	readyReads := showing("readyzReads", "Whether this node answers reads from its view of the cluster, also while etcd "+
		"is away, and how old that is at most.", Reads{}, 400, 503)
	readyReads.params = []object{queryParam("max_age", "Refuse an older view: a duration like 30s.",
		object{"type": "string"})}
	eventsPage := showing("events", "The newest events of the cluster, oldest first.", Events{}, 400, 404, 503)
	eventsPage.params = []object{
		queryParam("limit", "How many at most.", object{"type": "integer", "minimum": 1, "maximum": maxLimit,
			"default": defaultLimit}),
		queryParam("since", "Only what happened since: how long ago, like 1h30m, or a time of RFC 3339.",
			object{"type": "string"}),
		queryParam("types", "Only events of these types, with commas between them.", object{"type": "string",
			"minLength": 1})}
	figures := showing("figures", "Services, processors and busy shards of the whole cluster, and with ?since= samples "+
		"of its last hour. The node asks every other one.", Figures{}, 400, 404, 503)
	figures.params = []object{queryParam("since", "Include the samples after this: how long ago, like 1h, or a time of "+
		"RFC 3339.", object{"type": "string"})}
	pageStream := streamed("stream", "Pages whenever they change, as server-sent events: the name of each is the page as "+
		"it was asked for, and its data an object with the page's status and body. An event beat comes every two seconds.",
		400, 503)
	pageStream.params = []object{queryParam("page", "A page, with its query; several are several parameters.",
		object{"type": "array", "items": object{"type": "string"}, "minItems": 1, "maxItems": maxPages})}
	return map[string]operation{
		"/":                   showing("dashboard", "The dashboard, a page for people.", htmlPage{}, 503),
		"/livez":              showing("livez", "Whether the process runs: always 200.", probe{}),
		"/readyz":             showing("readyz", "Whether this node can be given work.", probe{}, 503),
		"/readyz/reads":       readyReads,
		"/readyz/writes":      showing("readyzWrites", "Whether this node is ready and knows a leader.", probe{}, 503),
		"/leaderz":            showing("leaderz", "Whether this node leads: 200, else 503.", probe{}, 503),
		"/metrics":            showing("metrics", "Metrics for Prometheus, as text.", plainText{}, 503),
		"/cluster/status":     showing("status", "This node's view: state, leader, queue, nodes.", Status{}, 503),
		"/cluster/leader":     showing("leader", "The leader, and the times of its term.", Leader{}, 503),
		"/cluster/nodes":      listing("nodes", "The registered nodes as this node sees them.", Nodes{}),
		"/cluster/shards":     showing("shards", "The owners of the shards, and open moves.", Shards{}, 404, 503),
		"/cluster/processors": showing("processors", "The program's processors on this node.", Processors{}, 503),
		"/cluster/processors/all": listing("allProcessors", "The processors of the whole cluster, from the checkpoints.",
			AllProcessors{}),
		"/cluster/processors/{name}/parked": showing("parkedEvents", "The events that a processor has given up.",
			ParkedEvents{}, 400, 404, 503),
		"/cluster/automations": showing("automations", "The program's automations on this node.", Automations{}, 503),
		"/cluster/objects":     objectsPage,
		"/cluster/figures":     figures,
		"/cluster/elections": listing("elections", "The named elections of the whole cluster, from etcd.",
			Elections{}),
		"/cluster/locks": listing("locks", "The locks of the whole cluster, from etcd.", Locks{}),
		"/cluster/effects": listing("effects", "The effects of the whole cluster, from etcd.", Effects{},
			queryParam("unknown", "Only those whose outcome is unknown.", object{"type": "boolean", "default": false})),
		"/cluster/events": eventsPage,
		"/cluster/events/stream": streamed("streamEvents", "Each event of the cluster as it is recorded, as server-sent "+
			"events whose data is an event of /cluster/events and whose id goes into Last-Event-ID.", 400, 404, 503),
		"/cluster/stream": pageStream,
		"/cluster/health": showing("health", "Healthy or degraded, for dashboards.", Health{}, 503),
		"/openapi.json":   showing("openapi", "This description.", object{}, 503),
		"/cluster/admin/check": changing("check", "Whether the caller may make admin calls. It changes nothing.", empty{},
			Checked{}),
		"/cluster/admin/resign":   changing("resign", "Have the leader give way to the next in the queue.", empty{}, Moved{}),
		"/cluster/admin/transfer": changing("transfer", "Have a candidate lead.", TransferRequest{}, Moved{}),
		"/cluster/admin/drain":    drain,
		"/cluster/admin/undrain":  changing("undrain", "End a drain.", DrainRequest{}, Drained{}),
		"/cluster/admin/elections/{name}/resign": changing("resignElection",
			"Have the leader of a named election give way to the next.", empty{}, Moved{}),
		"/cluster/admin/elections/{name}/transfer": changing("transferElection",
			"Have a candidate lead a named election.", TransferRequest{}, Moved{}),
		"/cluster/admin/effects/{name}/resolve": changing("resolveEffect",
			"Say what became of an effect whose outcome is unknown.", ResolveRequest{}, Effect{}),
		"/cluster/admin/processors/{name}/pause": changing("pauseProcessor",
			"Have a processor handle no further event in the whole cluster.", PauseProcessorRequest{}, ManagedProcessor{}),
		"/cluster/admin/processors/{name}/resume": changing("resumeProcessor", "End a pause.", PauseProcessorRequest{},
			ManagedProcessor{}),
		"/cluster/admin/processors/{name}/rewind": changing("rewindProcessor",
			"Have a processor continue after another position.", RewindRequest{}, ManagedProcessor{}),
		"/cluster/admin/processors/{name}/unfence": changing("unfenceProcessor",
			"Let any token claim a processor's checkpoint.", UnfenceRequest{}, ManagedProcessor{}),
		"/cluster/admin/processors/{name}/retry": changing("retryEvent", "Have a parked event handled again.",
			EventRequest{}, ManagedProcessor{}),
		"/cluster/admin/processors/{name}/drop": changing("dropEvent", "Remove the record of a parked event.",
			EventRequest{}, ManagedProcessor{}),
	}
}

// document builds the document of all existing routes.
func document(t *testing.T) object {
	t.Helper()
	s, paths, described := newSchemas(t), object{}, operations()
	for _, rt := range newRouter(leader(), func() objectView { return nil }, Options{}).routes {
		op, ok := described[rt.path]
		if !ok {
			t.Errorf("openapi_document_test.go says nothing of the route %s: describe it in operations", rt.path)
			continue
		}
		delete(described, rt.path)
		paths[rt.path] = object{strings.ToLower(rt.method): s.operation(op, rt)}
	}
	for path := range described {
		t.Errorf("openapi_document_test.go describes %s, and there is no such route: take it out", path)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Goverse node", "version": "1", "description": "The HTTP API of a node of a Goverse " +
			"cluster. Any node answers any call. GET routes answer HEAD, too. Fields may be added to answers. Problems " +
			"are those of RFC 9457; docs/reference/http.md has their types."},
		"paths": paths,
		"components": object{"schemas": s.made, "responses": s.responses, "securitySchemes": object{
			"bearer":      object{"type": "http", "scheme": "bearer"},
			"certificate": object{"type": "mutualTLS"},
		}},
	}
}

func (s *schemas) operation(op operation, rt route) object {
	out, answers := object{"operationId": op.id, "summary": op.summary}, object{}
	if params := op.params; len(params) > 0 || strings.Contains(rt.path, "{name}") {
		if strings.Contains(rt.path, "{name}") {
			params = append([]object{{"name": "name", "in": "path", "required": true,
				"description": "Percent-encoded, slashes too.", "schema": object{"type": "string", "minLength": 1}}}, params...)
		}
		out["parameters"] = params
	}
	if op.body != nil {
		_, optional := op.body.(empty)
		out["requestBody"] = object{"required": !optional, "content": s.json(op.body)}
		out["security"] = []object{{"bearer": []string{}}, {"certificate": []string{}}}
	}
	for status, body := range op.answers {
		answers[strconv.Itoa(status)] = object{"description": http.StatusText(status), "content": s.json(body)}
	}
	for _, status := range op.problems {
		name := fmt.Sprintf("Problem%d", status)
		s.responses[name] = object{"description": http.StatusText(status) + namesOf(status),
			"content": object{problem.MediaType: object{"schema": s.ref(reflect.TypeFor[problem.Problem]())}}}
		answers[strconv.Itoa(status)] = object{"$ref": responses + name}
	}
	out["responses"] = answers
	return out
}

// responses is the pointer to responses shared by several routes.
const responses = "#/components/responses/"

// namesOf returns the kinds of problems with a status.
func namesOf(status int) string {
	var names []string
	for _, k := range problemKinds {
		if k.status == status {
			names = append(names, k.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(": %s, or about:blank", strings.Join(names, ", "))
}

func (s *schemas) json(body any) object {
	switch body.(type) {
	case htmlPage:
		return object{"text/html": object{"schema": object{"type": "string"}}}
	case eventStream:
		return object{"text/event-stream": object{"schema": object{"type": "string"}}}
	case plainText:
		return object{"text/plain": object{"schema": object{"type": "string"}}}
	case object:
		return object{"application/json": object{"schema": object{"type": "object"}}}
	}
	return object{"application/json": object{"schema": s.of(reflect.TypeOf(body))}}
}
