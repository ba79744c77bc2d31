package dashboard_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/browser"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

type noEvents struct{}

func (noEvents) Read(context.Context, processor.Position, int) ([]processor.Event[int], error) {
	return nil, nil
}

// prints returns an automation whose only item is parked.
func prints(t *testing.T) *automation.Automation[int] {
	t.Helper()
	source, err := automation.NewList(automation.ListConfig[int]{
		List: func(_ context.Context, after string, _ int) (all []automation.Item[int], err error) {
			if after < "page 7" {
				all = append(all, automation.Item[int]{Key: "page 7"})
			}
			return all, nil
		},
		Due: func(context.Context, automation.Item[int]) (bool, error) { return true, nil }})
	require.NoError(t, err)
	a, err := automation.New(automation.Config[int]{Name: "prints", Source: source, MaxAttempts: 1,
		CountInterval: 10 * time.Millisecond, Execute: func(context.Context, automation.Item[int]) error {
			return errors.New("no paper")
		}})
	require.NoError(t, err)
	return a
}

// act fills in fields, presses a button, confirms, and waits for the dialog's outcome.
func act(t *testing.T, p *browser.Page, button, fields, says string) {
	t.Helper()
	p.Await(t, `document.querySelector('`+button+`')`)
	p.Await(t, do(`document.querySelector('`+button+`').click()`)+` && document.querySelector("#dialog").open`)
	if fields != "" {
		require.True(t, browser.Eval[bool](t, p, do(fields)))
	}
	p.Await(t, do(`document.querySelector("#dialog-confirm").click()`))
	p.Await(t, answered)
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#dialog-outcome").textContent`), says)
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#dialog-cancel").click()`)))
}

// unled returns a processor that no process leads any more. Its events at 2 and 4 are parked.
func unled(t *testing.T, checkpoints *processor.Memory) (heal func(), start func() *processor.Processor[int]) {
	t.Helper()
	var healed atomic.Bool
	began := time.Now()
	start = func() *processor.Processor[int] {
		p, err := processor.New(processor.Config[int]{Name: "views/b", Source: clockSource{began}, Checkpoint: checkpoints,
			CheckInterval: 10 * time.Millisecond, MaxAttempts: 1, Node: "node b",
			Handler: func(_ context.Context, e processor.Event[int]) error {
				if (e.Position == "000000002" || e.Position == "000000004") && !healed.Load() {
					return processor.ErrPoison
				}
				return nil
			}})
		require.NoError(t, err)
		return p
	}
	p := start()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	require.Eventually(t, func() bool { return p.Status().Position >= "000000005" }, time.Minute, time.Millisecond)
	cancel()
	running.Wait()
	return func() { healed.Store(true) }, start
}

// A processor that no process leads is paused, rewound, unfenced and resumed by real clicks. The next leader follows,
// and retries and drops what was parked.
func TestProcessorThatNoProcessLeads(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	c := three(t)
	checkpoints := &processor.Memory{}
	heal, start := unled(t, checkpoints)
	node := c.Node(1)
	origin := serve(t, httpapi.New(node.Cluster(), httpapi.Options{Checkpoints: checkpoints,
		Admin: &httpapi.Admin{Authorize: httpapi.BearerToken("ops", token)}}))
	p := b.Open(t, desk, origin+"/")
	p.Await(t, withToken(token))
	p.Await(t, `document.querySelector("#token-outcome").textContent.includes("accepts")`)
	p.Await(t, do(`document.querySelector("#tab-processors").click()`)+" && "+count("#panel tbody tr", 1))
	row := func(says string) {
		t.Helper()
		p.Await(t, `document.querySelector("#panel tbody tr").textContent.includes("`+says+`")`)
	}
	look := func() processor.Standing {
		t.Helper()
		s, err := checkpoints.Look(t.Context(), "views/b")
		require.NoError(t, err)
		return s
	}
	row("2 parked")
	p.Click(t, `[data-act=pause]`)
	p.Await(t, `document.querySelector("#dialog").open`)
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#reason").value = "a migration"`)))
	p.Click(t, `#dialog-confirm`)
	p.Await(t, answered)
	require.Equal(t, "token ops", look().Pause.By)
	require.True(t, look().PauseAcknowledged(), "no process leads")
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#dialog-cancel").click()`)))
	row("paused by token ops: a migration")

	act(t, p, `[data-act=rewind]`, `document.querySelector("#position").value = "000000001"`, "after 000000001")
	require.EqualValues(t, "000000001", look().Position)
	row("at 000000001")
	act(t, p, `[data-act=rewind]`, `document.querySelector("[name=where][value=reset]").click()`, "begins anew")
	require.Empty(t, look().Position)
	act(t, p, `[data-act=unfence]`, `document.querySelector("#sure").checked = true`, "Any token")
	require.Zero(t, look().Token)
	act(t, p, `[data-act=rewind]`, `document.querySelector("#position").value = "000000005"`, "after 000000005")

	p.Await(t, `document.querySelector("[data-act=resume]")`)
	p.Click(t, `[data-act=resume]`)
	p.Await(t, `document.querySelector("#dialog-words").textContent.includes("no node leads it")`)
	p.Click(t, `#dialog-confirm`)
	p.Await(t, answered)
	require.False(t, look().Pause.Paused)
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#dialog-cancel").click()`)))
	p.Await(t, `document.querySelector("#events").textContent.includes("views/b resumed by token ops")`)

	next := start()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = next.Run(ctx) })
	defer running.Wait()
	defer cancel()
	row("node b")
	p.Click(t, `[data-act=parked]`)
	p.Await(t, `document.querySelector("#dialog [name=event]")`)
	p.Click(t, `#dialog-confirm`)
	p.Await(t, `document.querySelector("#dialog-outcome").textContent.includes("failed again")`)
	heal()
	p.Click(t, `#dialog-confirm`)
	p.Await(t, answered)
	require.EqualValues(t, 1, look().Parked)
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#dialog-cancel").click()`)))
	p.Click(t, `[data-act=parked]`)
	p.Await(t, `document.querySelector("#dialog [name=event]")?.value === "000000004"`)
	p.Click(t, `#dialog [name=what][value=drop]`)
	p.Click(t, `#dialog-confirm`)
	p.Await(t, answered)
	require.Zero(t, look().Parked)
	require.True(t, browser.Eval[bool](t, p, do(`document.querySelector("#dialog-cancel").click()`)))
	p.Await(t, count("[data-act=parked]", 0))
	require.Empty(t, p.ForeignRequests(origin))
	require.Len(t, p.Faults(), 1, "the retry that failed")
	require.Contains(t, p.Faults()[0], "409")
}

// Work of each kind is shown, with the unknown effect first. The buttons do as they say.
func TestWork(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	c := busy(t)
	checkpoints := &processor.Memory{}
	one, err := processor.New(processor.Config[int]{Name: "views/a", Source: noEvents{}, Checkpoint: checkpoints,
		CheckInterval: 10 * time.Millisecond, Handler: func(context.Context, processor.Event[int]) error { return nil }})
	require.NoError(t, err)
	group := processor.Group{one}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = group.Run(ctx) })
	pages := prints(t)
	running.Go(func() { _ = pages.Run(ctx) })
	defer running.Wait()
	defer cancel()
	node := c.Node(2)
	origin := serve(t, httpapi.New(node.Cluster(), httpapi.Options{Processors: group.Status,
		Automations: func() []automation.Status { return []automation.Status{pages.Status()} },
		Checkpoints: checkpoints, Admin: &httpapi.Admin{Authorize: httpapi.BearerToken("ops", token)}}))
	p := b.Open(t, desk, origin+"/")
	p.Await(t, withToken(token))
	p.Await(t, `document.querySelector("#token-outcome").textContent.includes("accepts")`)

	tab := func(name string, rows int) {
		t.Helper()
		p.Await(t, do(`document.querySelector("#tab-`+name+`").click()`)+" && "+count("#panel tbody tr", rows))
	}
	tab("locks", 2)
	tab("elections", 2)
	e, err := node.Cluster().Elections().Look(t.Context(), "outbox")
	require.NoError(t, err)
	act(t, p, `[data-act=transferElection][data-name=outbox]`, "", "lead")
	c.Eventually(func() bool {
		after, err := node.Cluster().Elections().Look(t.Context(), "outbox")
		return err == nil && after.Leader.Address != e.Leader.Address
	}, "another one leads it")

	tab("effects", 3)
	p.Await(t, `/^mail.4711effectunknown/.test(document.querySelector("#panel tbody tr").textContent)`)
	p.Await(t, `document.querySelector("#tab-effects").textContent.includes("1 unknown")`)
	act(t, p, `[data-act=resolve]`, `document.querySelector("[name=outcome][value=done]").checked = true`, "done")
	look, err := node.Cluster().Effects().Look(t.Context(), "mail/4711")
	require.NoError(t, err)
	require.Equal(t, once.Done, look.State)
	p.Await(t, `!document.querySelector("#tab-effects").textContent.includes("unknown")`)

	// All kinds are in one list, and those in trouble come first.
	tab("all", 9)
	p.Await(t, `[...document.querySelectorAll("#panel tbody tr")].some((r) => /^mail.4711effectdone/.test(r.textContent))`)
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#panel tbody tr").textContent`), "prints")
	require.Contains(t, browser.Eval[string](t, p, `document.querySelectorAll("#panel tbody tr")[1].textContent`),
		"nightly-report")
	tab("automations", 1)
	p.Await(t, `/items parked.*shared.*1 parked, page 7: no paper/.test(`+
		`document.querySelector("#panel tbody tr").textContent)`)
	tab("processors", 1)
	act(t, p, `[data-act=pause]`, "", "paused")
	require.True(t, one.Status().Paused)
	act(t, p, `[data-act=resume]`, "", "goes on")
	c.Eventually(func() bool { return !one.Status().Paused }, "it goes on")

	draining := `[data-act=drain][data-node="` + c.Node(3).Address() + `"]`
	act(t, p, draining, "", "drain")
	p.Await(t, `document.querySelector("#nodes tbody").textContent.includes("draining")`)
	p.Await(t, `document.querySelector("#events").textContent.includes(" drains")`)
	act(t, p, `[data-act=undrain]`, "", "may have shards again")
	p.Await(t, `!document.querySelector("#nodes tbody").textContent.includes("draining")`)

	// A process of the election only has no shards to give up, and may lead.
	_, runner, err := leaderelection.New(leaderelection.Config{Client: c.Client(), EtcdPrefix: clustertest.Prefix,
		ID: "only"})
	require.NoError(t, err)
	require.NoError(t, runner.Start(etcdtest.Context(t)))
	t.Cleanup(func() { require.NoError(t, runner.Stop(context.Background())) })
	p.Await(t, `[...document.querySelectorAll("#nodes tbody tr")].some((r) => r.textContent.includes("election only"))`)
	p.Await(t, count(`[data-act=transfer][data-to=only]`, 1))
	require.True(t, browser.Eval[bool](t, p, count(`[data-act=drain][data-node=only]`, 0)))
	p.RequireClean(t, origin)
}
