package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// beatEvery is the interval of a stream's "beat" events, by which a client can tell that it is alive.
	beatEvery = 2 * time.Second
	// sendTimeout limits the time for a client to receive an event; slower clients are cut off.
	sendTimeout = 10 * time.Second
	// pushEvery is the minimum interval at which a stream reads its pages, however often the cluster changes.
	pushEvery = 100 * time.Millisecond
	// maxPages limits the pages of one stream.
	maxPages = 16
)

// stream sends server-sent events as defined by the HTML standard. Its methods are safe for concurrent use.
type stream struct {
	ctx  context.Context // ends with the request, and when the server begins to stop
	end  context.CancelFunc
	beat sync.WaitGroup

	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
}

// newStream begins the response, and sends beats until close.
func newStream(w http.ResponseWriter, r *http.Request) *stream {
	ctx, end := context.WithCancel(r.Context())
	s := &stream{ctx: ctx, end: end, w: w, control: http.NewResponseController(w)}
	if stopping, ok := r.Context().Value(stoppingKey{}).(<-chan struct{}); ok {
		s.beat.Go(func() {
			select {
			case <-stopping:
				end()
				_ = s.control.SetWriteDeadline(time.Now()) // does not wait for a client that does not read
			case <-ctx.Done():
			}
		})
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx passes events on without buffering
	w.WriteHeader(http.StatusOK)
	s.beat.Go(func() {
		again := time.NewTicker(beatEvery)
		defer again.Stop()
		for s.sendEvent("", "beat", []byte("{}")) == nil {
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return s
}

// close waits for the stream's goroutines. The response ends when the handler returns.
func (s *stream) close() {
	s.end()
	s.beat.Wait()
}

// sendEvent sends one event. id may be empty. data must have no line breaks, like JSON.
func (s *stream) sendEvent(id, name string, data []byte) error {
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, data)
	return s.writeBytes(b.Bytes())
}

// writeBytes sends bytes at once. A failure ends the stream.
func (s *stream) writeBytes(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ctx.Err(); err != nil {
		return err
	}
	// A server without write deadlines has its own time-out, or none.
	_ = s.control.SetWriteDeadline(time.Now().Add(sendTimeout))
	if err := s.ctx.Err(); err != nil { // it may have ended just now, and its deadline was overwritten
		return err
	}
	_, err := s.w.Write(b)
	if err == nil {
		err = s.control.Flush()
	}
	if err != nil {
		s.end()
	}
	return err
}

// streamPages sends pages again whenever they change: ?page=/cluster/nodes&page=/cluster/leader. The name of an
// event is the page as requested, and its data is a Push.
func (rt *router) streamPages(w http.ResponseWriter, r *http.Request) {
	pages, err := rt.requestedPages(r)
	if err != nil {
		writePlainProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	s := newStream(w, r)
	defer s.close()
	changed := changesOf(s.ctx, rt.source)
	sent := make([][]byte, len(pages))
	var looks sync.WaitGroup
	defer looks.Wait()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		// Render pages concurrently, so that several that wait for an unresponsive etcd take no longer than one.
		pushes := make([]chan []byte, len(pages))
		for i, page := range pages {
			pushes[i] = make(chan []byte, 1)
			looks.Go(func() { pushes[i] <- rt.renderPage(page) })
		}
		for i, page := range pages {
			push := <-pushes[i]
			if bytes.Equal(push, sent[i]) {
				continue
			}
			if s.sendEvent("", page, push) != nil {
				return
			}
			sent[i] = push
		}
		pause := time.NewTimer(pushEvery)
		select {
		case <-pause.C:
		case <-s.ctx.Done():
			pause.Stop()
			return
		}
		select {
		case _, ok := <-changed:
			if !ok {
				changed = nil // the node stops, as the pages show
			}
		case <-look.C:
			if changed == nil {
				changed = changesOf(s.ctx, rt.source)
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// requestedPages returns the requested pages of a stream.
func (rt *router) requestedPages(r *http.Request) ([]string, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	pages := values["page"]
	delete(values, "page")
	switch {
	case err != nil || len(values) > 0 || len(pages) == 0:
		return nil, fmt.Errorf("name the pages, percent-encoded: ?page=/cluster/nodes&page=/cluster/leader")
	case len(pages) > maxPages:
		return nil, fmt.Errorf("%d pages: give %d at most", len(pages), maxPages)
	}
	for _, page := range pages {
		path, query, _ := strings.Cut(page, "?")
		found, _, ok := rt.findRoute(path)
		_, bad := url.Parse(page)
		switch asked, err := url.ParseQuery(query); {
		case !ok || !found.pushed || bad != nil || strings.ContainsAny(page, "\r\n"):
			return nil, fmt.Errorf("page=%q: there are %s", page, strings.Join(rt.pushedPaths(), ", "))
		case err == nil && asked.Has("after"): // each would be another read of etcd, once a second
			return nil, fmt.Errorf("page=%q: a stream has lists from their beginning, without ?after=", page)
		}
	}
	return pages, nil
}

// pushedPaths lists the pages that a stream can have.
func (rt *router) pushedPaths() (paths []string) {
	for _, r := range rt.routes {
		if r.pushed {
			paths = append(paths, r.path)
		}
	}
	return paths
}

// Push is the data of an event of /cluster/stream: a page as it would be served.
type Push struct {
	Status int             `json:"status"` // HTTP status code
	Body   json.RawMessage `json:"body"`   // also of a problem
}

// renderPage returns a page as the data of an event. It is made once for all streams that need it at the same time.
func (rt *router) renderPage(page string) []byte {
	answered, err := rt.pages.get(context.Background(), page, time.Minute, func(ctx context.Context) (any, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
		if err != nil {
			return nil, err
		}
		w := &pageRecorder{header: http.Header{}, status: http.StatusOK}
		found, name, _ := rt.findRoute(r.URL.EscapedPath())
		recoverPanic(w, func() { found.handle(w, r, name) })
		return json.Marshal(Push{Status: w.status, Body: bytes.TrimSpace(w.body.Bytes())})
	})
	if err != nil { // impossible: requestedPages checked the page, and the body is JSON
		return nil
	}
	push, _ := answered.([]byte)
	return push
}

// recoverPanic answers for a page that panics, as net/http does for a request: pages may call the program's own
// functions.
func recoverPanic(w http.ResponseWriter, handle func()) {
	defer func() {
		if recover() != nil {
			writePlainProblem(w, http.StatusInternalServerError, "this page failed")
		}
	}()
	handle()
}

// pageRecorder collects the response for a page that was not requested over the network.
type pageRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *pageRecorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *pageRecorder) WriteHeader(code int) { w.status = code }

// Write implements http.ResponseWriter.
func (w *pageRecorder) Write(b []byte) (int, error) { return w.body.Write(b) }
