package dashboard_test

import (
	"bytes"
	"context"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/browser"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

var screenshots = flag.Bool("dashboard.screenshots", false, "make the pictures in docs/img anew")

// mostPicture limits the size of a picture in bytes.
const mostPicture = 150_000

// The pictures of the documentation: real clusters, one of them after the death of a leader, with work of each
// kind; one node alone; and the records of a hundred nodes, with invented figures.
func TestScreenshots(t *testing.T) {
	if !*screenshots {
		t.Skip("-dashboard.screenshots makes the pictures in docs/img anew")
	}
	b := browser.Start(t)
	c := busy(t)
	origin := serve(t, live(t, c, c.Node(2)))
	p := b.Open(t, browser.View{Width: 1280, Height: 1300, ReducedMotion: true}, origin+"/")
	p.Await(t, count("#nodes tbody tr", 3)+" && "+count("#legend li", 3))
	p.Await(t, `document.querySelectorAll("#events .event").length > 8`)
	p.Await(t, `document.querySelector("#tab-effects").textContent.includes("unknown")`)
	p.Await(t, count("#services tbody tr", 1)+` && document.querySelectorAll("#sparks .spark-line").length > 2`)
	save(t, p, "dashboard-light.png")
	p.Await(t, do(`document.querySelector("#h-services").scrollIntoView()`))
	p.SetView(t, browser.View{Width: 1280, Height: 1100, Dark: true, ReducedMotion: true})
	p.Await(t, do(`document.querySelector("#zoom").open = true, document.querySelector("#h-shards").scrollIntoView()`))
	save(t, p, "dashboard-dark.png")
	p.SetView(t, browser.View{Width: 360, Height: 1500, ReducedMotion: true})
	p.Await(t, do(`scrollTo(0, 0)`))
	save(t, p, "dashboard-phone.png")

	alone := clustertest.New(t, 1)
	alone.WaitLeader()
	p = b.Open(t, browser.View{Width: 1280, Height: 900, ReducedMotion: true}, serve(t, handler(alone, 0))+"/")
	p.Await(t, count("#nodes tbody tr", 1)+" && "+count("#legend li", 1))
	save(t, p, "dashboard-1.png")

	crowd, now := many(t, 100), time.Now()
	origin = serve(t, withFigures(handler(crowd, 0), crowdFigures(now)))
	p = b.Open(t, browser.View{Width: 1280, Height: 1500, ReducedMotion: true}, origin+"/")
	p.Await(t, count("#nodes tbody tr", 100)+" && "+count("#legend li", 100))
	p.Await(t, `document.querySelectorAll("#events .event").length > 99`)
	p.Await(t, `document.querySelectorAll("#sparks .spark-line").length > 2`)
	save(t, p, "dashboard-100.png")
}

// save writes a picture as a small PNG.
func save(t *testing.T, p *browser.Page, name string) {
	t.Helper()
	// Wait until animations have ended and the picture of the shards has its size.
	browser.Eval[bool](t, p, `new Promise((done) => setTimeout(() => done(true), 2000))`)
	img, err := png.Decode(bytes.NewReader(p.Screenshot(t)))
	require.NoError(t, err)
	var small bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(img)))
	t.Logf("%s: %d bytes", name, small.Len())
	require.Less(t, small.Len(), mostPicture)
	dir := filepath.Join("..", "..", "..", "..", "docs", "img")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), small.Bytes(), 0o644)) //nolint:gosec // it is public
}

// paletted reduces a picture to 256 colours: its most frequent ones, and one for each group of the others.
func paletted(img image.Image) image.Image {
	size, count := img.Bounds(), map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return count[b] - count[a] })
	var colours color.Palette
	alike := map[color.RGBA]bool{}
	for _, c := range all {
		kind := color.RGBA{R: c.R >> 4, G: c.G >> 4, B: c.B >> 4}
		if (len(colours) < 128 || !alike[kind]) && len(colours) < 256 {
			alike[kind], colours = true, append(colours, c)
		}
	}
	nearest := map[color.RGBA]uint8{}
	for _, c := range all {
		nearest[c] = uint8(colours.Index(c)) //nolint:gosec // there are 256
	}
	out := image.NewPaletted(size, colours)
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	return out
}

// busy returns a cluster after the death of its first leader, with elections, locks and effects, one of them
// unknown.
func busy(t *testing.T) *clustertest.Cluster {
	t.Helper()
	c := clustertest.New(t, 0, clustertest.WithTTL(10), clustertest.WithConfig(func(i int, cfg *cluster.Config) {
		cfg.Version = "v1.4.0"
		cfg.Labels = map[string]string{"zone": "eu-1" + string(rune('a'+i%3)), "pool": "orders"}
	}))
	for range 4 {
		n := c.NewNode()
		hostCounters(n.Cluster())
		require.NoError(t, n.Start(etcdtest.Context(t)))
	}
	c.WaitLeaderIs(c.Node(0).Address())
	owned := func(n int) func() bool {
		return func() bool {
			table, err := c.Node(2).Cluster().ShardTable()
			return err == nil && len(table.Owners) == n && table.OpenMoves == 0 && table.Balance.Least >= 8192/n
		}
	}
	c.Eventually(owned(4), "all have their shards")
	ctx := etcdtest.Context(t)
	// The process of the effect dies while it runs.
	running, end := make(chan struct{}), make(chan struct{})
	died, cancel := context.WithCancel(ctx)
	go func() {
		defer close(end)
		_, _ = c.Node(0).Cluster().Once(died, "mail/4711", func(ctx context.Context, _ int64) ([]byte, error) {
			close(running)
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}()
	<-running
	c.Node(0).Kill()
	cancel()
	<-end
	c.WaitLeaderIs(c.Node(1).Address())
	c.Eventually(owned(3), "the others have its shards")
	c.Eventually(func() bool {
		s, err := c.Node(1).Cluster().Effects().Look(ctx, "mail/4711")
		return err == nil && s.State == once.Unknown
	}, "the effect is unknown")
	for _, name := range []string{"mail/4712", "invoice/2041"} {
		_, err := c.Node(2).Cluster().Once(ctx, name,
			func(context.Context, int64) ([]byte, error) { return []byte("sent"), nil })
		require.NoError(t, err)
	}
	for i, name := range []string{"outbox", "nightly-report"} {
		for j := range 3 {
			_, err := c.Node(1 + (i+j)%3).Cluster().Elections().Stand(name) // until its node stops
			require.NoError(t, err)
			c.Eventually(func() bool {
				s, err := c.Node(1).Cluster().Elections().Look(ctx, name)
				return err == nil && s.Length == j+1
			}, "it stands")
		}
	}
	for i, name := range []string{"invoice/42", "migration"} {
		held, err := c.Node(1+i).Cluster().Locks().Acquire(ctx, name)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, held.Release(context.Background())) })
	}
	return c
}
