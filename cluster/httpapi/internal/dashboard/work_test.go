package dashboard_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	defer running.Wait()
	defer cancel()
	node := c.Node(2)
	origin := serve(t, httpapi.New(node.Cluster(), httpapi.Options{Processors: group.Status,
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
	tab("all", 8)
	p.Await(t, `[...document.querySelectorAll("#panel tbody tr")].some((r) => /^mail.4711effectdone/.test(r.textContent))`)
	require.Contains(t, browser.Eval[string](t, p, `document.querySelector("#panel tbody tr").textContent`),
		"nightly-report")
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
