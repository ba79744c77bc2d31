package dashboard_test

import (
	"encoding/json"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/test/browser"
)

// with serves a node's pages, but one of them with another body.
func with(h http.Handler, path string, body any) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(body) // fails only if the page has gone
	})
	return mux
}

// withFigures serves a node's pages, but these figures.
func withFigures(h http.Handler, figures httpapi.Figures) http.Handler {
	return with(h, "/cluster/figures", figures)
}

// withPast serves a node's pages, but these events and figures.
func withPast(h http.Handler, events []event.Event, figures httpapi.Figures) http.Handler {
	return with(withFigures(h, figures), "/cluster/events", httpapi.Events{Source: httpapi.EventsOfLog, Events: events})
}

// crowdFigures returns figures of a hundred nodes.
func crowdFigures(now time.Time) httpapi.Figures {
	at := func(seconds float64) httpapi.ObjectTimes {
		return httpapi.ObjectTimes{Count: 1000, Mean: seconds / 3, P50AtMost: &seconds, P99AtMost: &seconds}
	}
	f := httpapi.Figures{ReadAt: now, SampleSeconds: 20, Nodes: 100, Missing: []httpapi.MissingNode{},
		Own: []stats.Sample{}, Processors: []httpapi.ClusterProcessor{}, Busy: []httpapi.BusyShard{},
		Services: []httpapi.ClusterService{
			{Name: "shop.Cart", Nodes: 99, Active: 120_400, Calls: 9e6, CallsPerSecond: 13_250, FailedPerSecond: 0.4,
				Failed: 31, Latency: at(0.003), Queued: at(0.01), Waiting: 3},
			{Name: "shop.Stock", Nodes: 99, Active: 31_000, Calls: 1e6, CallsPerSecond: 1720, Latency: at(0.001)}}}
	for i := range 170 {
		wave := math.Sin(float64(i)/9) + math.Sin(float64(i)/3.7)/2
		f.Samples = append(f.Samples, stats.Sample{Time: now.Add(time.Duration(i-170) * 20 * time.Second).
			Truncate(20 * time.Second), Seconds: 20, RenewalSeconds: 0.003 + 0.001*wave,
			Calls: int64(20 * (15_000 + 5000*wave)), Queued: 40, QueuedSeconds: 0.05 * (2 + wave),
			Lag: int64(60 + 40*wave)})
	}
	return f
}

// pastFigures returns figures of an hour with a failure in the middle.
func pastFigures(now time.Time, node string) httpapi.Figures {
	f := httpapi.Figures{NodeID: node, ReadAt: now, SampleSeconds: 20, Nodes: 3, MissingCount: 1,
		Missing: []httpapi.MissingNode{{Address: "gone:1", Error: hostile}}, Own: []stats.Sample{},
		Busy: []httpapi.BusyShard{{Shard: 17, Node: node, TurnsPerSecond: 44, Hot: true}},
		Services: []httpapi.ClusterService{{Name: "shop.Stock", Nodes: 1, Active: 5, CallsPerSecond: 99},
			{Name: hostile, Nodes: 2, Active: 70, CallsPerSecond: 12.5, FailedPerSecond: 1.5, Panics: 3}},
		Processors: []httpapi.ClusterProcessor{
			{Node: "else:1", ProcessorView: httpapi.ProcessorView{Name: "far", Leading: true, Attempts: 2, LastError: hostile}}}}
	for i := range 150 {
		s := stats.Sample{Time: now.Add(time.Duration(i-150) * 20 * time.Second).Truncate(20 * time.Second), Seconds: 20,
			RenewalSeconds: 0.002, Calls: 240, Lag: 7, Queued: 2, QueuedSeconds: 0.003}
		switch { // the node stood still for a minute
		case i >= 30 && i < 33:
			continue
		case i == 33:
			s.Seconds, s.Calls = 4*s.Seconds, 4*s.Calls
		}
		if i == 75 {
			s.Failovers, s.Failed, s.RenewalSeconds = 1, 100, 0.08
		}
		f.Samples = append(f.Samples, s)
	}
	return f
}

// The past is drawn as the event log has it: a term for each leader, gaps in red, and the moments of nodes.
func TestPast(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	c := three(t)
	now := time.Now()
	first, second := c.Node(1).Address(), c.Node(2).Address()
	seq := int64(0)
	at := func(ago time.Duration, of event.Type, node string) event.Event {
		seq++
		return event.Event{ID: string(of) + node + ago.String(), Type: of, Time: now.Add(-ago), Node: node}
	}
	elected := at(30*time.Minute, event.LeaderElected, second)
	elected.Seconds = 1.5
	imported := at(2*time.Minute, "app_import_finished", second)
	imported.Data = []byte(`{"file":"<img src=x onerror=alert(1)>"}`)
	h := withPast(handler(c, 0), []event.Event{imported, at(time.Minute, "moon_rose", ""),
		at(70*time.Minute, event.LeaderElected, first), at(30*time.Minute, event.LeaderLost, first), elected,
		at(30*time.Minute, event.NodeRemoved, first), at(20*time.Minute, event.DrainStarted, second),
		at(15*time.Minute, event.DrainEnded, second), at(10*time.Minute, event.NodeJoined, hostile),
		at(5*time.Minute, event.LeaderLost, second),
	}, pastFigures(now, c.Node(0).Address()))
	origin := serve(t, h)
	p := b.Open(t, desk, origin+"/")
	p.Await(t, count("#lanes .term", 3)+" && "+count("#lanes .drain", 1))
	terms := browser.Eval[[]string](t, p, `[...document.querySelectorAll("#lanes .term")].map((e) => e.dataset.node)`)
	require.Equal(t, []string{first, second, c.Node(0).Address()}, terms)
	const lengths = `[...document.querySelectorAll("#lanes .gap-mark")].map((e) => e.dataset.to - e.dataset.from)`
	gaps := browser.Eval[[]float64](t, p, lengths)
	require.Len(t, gaps, 2)
	require.InDelta(t, 1500, gaps[0], 2, "as long as the event has it")
	require.InDelta(t, float64(5*time.Minute/time.Millisecond), gaps[1], 60_000, "from the loss until now's leader")
	require.True(t, browser.Eval[bool](t, p, count(`#lanes .moment[data-type=node_removed]`, 1)))
	words := browser.Eval[string](t, p, `document.querySelector("#lanes svg").getAttribute("aria-label")`)
	require.Contains(t, words, "3 nodes led")
	require.Contains(t, words, "in 2 gaps")
	p.Await(t, `document.querySelector("#lanes").textContent.includes("onerror")`)

	// Events of programs are shown with their data, and types that the page does not know by their names.
	p.Await(t, `document.querySelector("#events").textContent.includes("moon rose")`)
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#event-type").value = "Programs"`)+
		` && document.querySelector("#event-type").dispatchEvent(new Event("change"))`))
	p.Await(t, count("#events .event", 1))
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#events .event").textContent`),
		`import finished, `)
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#events .why").textContent`), `{"file":"<img`)
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#event-type").value = ""`)+
		` && document.querySelector("#event-type").dispatchEvent(new Event("change"))`))

	// Figures are those of the whole cluster.
	spark := func(name string) string {
		return browser.Eval[string](t, p, `document.querySelector("[data-key=`+name+`] svg").getAttribute("aria-label")`)
	}
	p.Await(t, count("#sparks .spark-line", 8)) // each is in two parts, before and after the gap
	require.Equal(t, "Calls per second, last hour: 12, highest 12, with failed calls", spark("calls"))
	require.Equal(t, "Failovers, last hour: 1", spark("failovers"))
	require.Equal(t, "Renewal, last hour: 2.0 ms, highest 80 ms", spark("renewal"))
	require.Equal(t, "Processor lag, last hour: 7, highest 7", spark("lag"))
	services := browser.Eval[string](t, p, `document.querySelector("#services").textContent`)
	require.Contains(t, services, "1 of 3 nodes did not report: gone:1, "+hostile)
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#services tbody tr").textContent`), hostile,
		"a service with failures comes first")
	p.Await(t, `document.querySelector("#shards-trouble").textContent.includes("Hot: shard 17")`)
	p.Await(t, `document.querySelector("#panel tbody tr").textContent.includes("farprocessorfailing")`)
	require.True(t, browser.Eval[bool](t, p, count("main img, body style", 0)))

	// Another span; the address has it, and a page opened there shows the same.
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#span").value = "15"`)+
		` && document.querySelector("#span").dispatchEvent(new Event("change"))`))
	p.Await(t, count("#lanes .term", 2)+` && location.hash === "#span=15"`)
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#tab-processors").click()`)))
	p.Await(t, `location.hash.includes("work=processors")`)
	p.RequireClean(t, origin)
	other := b.Open(t, phone, origin+"/#span=15&work=processors&filter=nothing-has-this&sort=Health&owner="+first)
	other.Await(t, count("#lanes .term", 2)+` && document.querySelector("#tab-processors").ariaSelected === "true"`)
	other.Await(t, count("#nodes tbody tr", 0)+` && document.querySelector("#filter").value === "nothing-has-this"`)
	other.Await(t, count(`#legend [aria-pressed=true]`, 1))
	require.True(t, browser.Eval[bool](t, other, do(`document.querySelector(".skip").click()`)))
	other.Await(t, `location.hash.includes("span=15")`)
	require.Zero(t, browser.Eval[float64](t, other,
		`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
	other.RequireClean(t, origin)
}

// Commands can be copied. Names are quoted as a shell takes them.
func TestCommands(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	c := three(t)
	_, err := c.Node(1).Cluster().Elections().Stand("it's; $(rm)")
	require.NoError(t, err)
	origin := serve(t, handler(c, 0))
	p := b.Open(t, desk, origin+"/")
	const button = `document.querySelector("#panel [data-do=copy]")`
	p.Await(t, button)
	require.Equal(t, `goversed elections resign 'it'\''s; $(rm)'`, browser.Eval[string](t, p, button+`.dataset.text`))
	require.Contains(t, browser.Eval[[]string](t, p,
		`[...document.querySelectorAll("#nodes [data-do=copy]")].map((b) => b.dataset.text)`),
		"goversed drain "+c.Node(1).Address())
	require.True(t, browser.Eval[bool](t, p, do(button+`.click()`)))
	p.Await(t, `/^(Copied: goversed elections|Press Ctrl.C to copy)/.test(document.querySelector("#news").textContent)`)
	p.RequireClean(t, origin)
}
