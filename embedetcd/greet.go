package embedetcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
)

const (
	// greetingPath is the HTTP path of a member's greeting, at its peer address.
	greetingPath = "/goverse/bootstrap"
	// askEvery is the interval between two rounds of questions to the others.
	askEvery = 100 * time.Millisecond
	// askTimeout limits one question.
	askTimeout = 2 * time.Second
	// logAfter is the time until a wait for other members is first logged, logEvery the interval after that.
	logAfter, logEvery = time.Second, 30 * time.Second
	// maxAnswer limits another member's answer, in bytes.
	maxAnswer = 1 << 20
)

var (
	errNoMember = errors.New("what answers there is no member of etcd: name peer addresses, usually port 2380")
	errOther    = errors.New("it answered with an error")
)

// meetPeers blocks until it can determine how this member, which has no data, starts. Meanwhile it answers the other
// members at the peer address and asks them. It stores its agreement in dir.
func meetPeers(ctx context.Context, c Config, dir *dataDir, mine greeting) (bootStep, error) {
	g, err := newGreeter(c, mine)
	if err != nil {
		return bootStep{}, err
	}
	defer g.close()
	again := time.NewTicker(askEvery)
	defer again.Stop()
	said := newReminder(c.Logger)
	for {
		answers := g.askPeers(ctx)
		s, err := nextStep(c, mine, answers)
		if err != nil {
			return bootStep{}, err
		}
		switch s.do {
		case doJoin:
			return s, nil
		case doBegin:
			mine.Begun = true
			return s, dir.storeNote(mine)
		case doAgree:
			mine.Agreed = s.agree
			if err := dir.storeNote(mine); err != nil {
				return bootStep{}, err
			}
			agreed := mine // a copy that is never modified
			g.mine.Store(&agreed)
			said = newReminder(c.Logger)
			c.Logger.Info("all members of etcd are here and have no data: a new cluster begins", "members", len(c.Peers))
			continue
		case doWait:
			said.logMissing(s.missing, answers)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return bootStep{}, notMetError(ctx, s.missing)
		}
	}
}

func notMetError(ctx context.Context, missing []string) error {
	return fmt.Errorf("embedetcd: this member of etcd has no data, and %s did not answer: start all members of a new "+
		"cluster (%w)", strings.Join(missing, ", "), context.Cause(ctx))
}

// greeter answers the other members and asks them, at the peer addresses, before etcd runs.
type greeter struct {
	cfg    Config
	mine   atomic.Pointer[greeting]
	server *http.Server
	served sync.WaitGroup
	client *http.Client
}

func newGreeter(c Config, mine greeting) (*greeter, error) {
	g := &greeter{cfg: c}
	g.mine.Store(&mine)
	info := c.PeerTLS.transportInfo()
	listen := listenURL(c.PeerTLS, c.listenPeer())
	l, err := transport.NewListener(listen.Host, listen.Scheme, &info)
	if err != nil {
		return nil, listenError("ListenPeer or Peers", listen.Host, err)
	}
	rt, err := transport.NewTransport(info, askTimeout)
	if err != nil {
		return nil, errors.Join(badConfig("PeerTLS: %v", err), l.Close())
	}
	rt.DisableKeepAlives = true // etcd needs the port afterwards
	g.client = &http.Client{Transport: rt, Timeout: askTimeout}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+greetingPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(g.mine.Load()) // a member that misses the answer asks again
	})
	g.server = &http.Server{Handler: mux, ReadHeaderTimeout: askTimeout,
		ErrorLog: c.Logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug})}
	g.server.SetKeepAlivesEnabled(false)
	g.served.Go(func() { _ = g.server.Serve(l) }) // only close ends it
	return g, nil
}

// close frees the port. It waits briefly for answers in flight.
func (g *greeter) close() {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if g.server.Shutdown(ctx) != nil {
		_ = g.server.Close()
	}
	g.served.Wait()
	g.client.CloseIdleConnections()
}

// askPeers asks all other members once, concurrently.
func (g *greeter) askPeers(ctx context.Context) map[string]peerAnswer {
	var mu sync.Mutex
	var wg sync.WaitGroup
	answers := map[string]peerAnswer{}
	for name, address := range g.cfg.Peers {
		if name == g.cfg.Name {
			continue
		}
		wg.Go(func() {
			a := askPeer(ctx, g.client, g.cfg.PeerTLS.scheme()+"://"+address)
			mu.Lock()
			defer mu.Unlock()
			answers[name] = a
		})
	}
	wg.Wait()
	return answers
}

// askPeer asks one member whether it has data. A member that runs etcd does not serve the first request.
func askPeer(ctx context.Context, client *http.Client, url string) peerAnswer {
	var hello greeting
	code, _, err := getJSON(ctx, client, url+greetingPath, &hello)
	switch {
	case err != nil:
		return peerAnswer{err: err}
	case code == http.StatusOK:
		return peerAnswer{greeting: &hello}
	}
	members, err := askMembers(ctx, client, url)
	return peerAnswer{members: members, err: err}
}

// askMembers asks a running member of etcd for the members it knows.
func askMembers(ctx context.Context, client *http.Client, url string) ([]*membership.Member, error) {
	var members []*membership.Member
	code, header, err := getJSON(ctx, client, url+"/members", &members)
	switch {
	case err != nil:
		return nil, err
	case code != http.StatusOK || header.Get("X-Etcd-Cluster-Id") == "" || len(members) == 0:
		return nil, errNoMember
	}
	return members, nil
}

// getJSON decodes a response with code 200 into the value that into points to. A response with code 404 is
// returned without decoding; any other code is an error.
func getJSON(ctx context.Context, client *http.Client, url string, into any) (int, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*neturl.Error](err); ok {
			err = failed.Err // drop the URL, which the caller knows
		}
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return resp.StatusCode, resp.Header, nil
	case resp.StatusCode != http.StatusOK:
		return 0, nil, fmt.Errorf("%w: %s", errOther, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into); err != nil {
		return 0, nil, fmt.Errorf("%w (%w)", errNoMember, err)
	}
	return resp.StatusCode, resp.Header, nil
}

// reminder logs the members that are still missing: first after logAfter, then whenever they change, and every
// logEvery.
type reminder struct {
	log    hclog.Logger
	nextAt time.Time
	last   []string
}

func newReminder(log hclog.Logger) *reminder {
	return &reminder{log: log, nextAt: time.Now().Add(logAfter)}
}

func (r *reminder) logMissing(names []string, answers map[string]peerAnswer) {
	now := time.Now()
	if now.Before(r.nextAt) && (r.last == nil || slices.Equal(names, r.last)) {
		return
	}
	r.nextAt, r.last = now.Add(logEvery), names
	reasons := []any{"missing", strings.Join(names, ", ")}
	for _, name := range names {
		if err := answers[name].err; err != nil {
			reasons = append(reasons, name, err)
		}
	}
	r.log.Info("waiting for the other members of etcd: this one has no data, and a new cluster begins when all are here",
		reasons...)
}
