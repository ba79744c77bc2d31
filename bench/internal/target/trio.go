package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/internal/port"
)

const (
	trioSize = 3
	asking   = time.Millisecond // interval between two polls of a survivor's status
	settling = 30 * time.Second // limit for the trio to be complete again
)

// member is one `goversed node`, including its restarts at the same address.
type member struct {
	address, http string
	daemon        *daemon // nil while it does not run
	client        *http.Client
}

// trio is a cluster of three members with default settings.
type trio struct {
	g       *goversed
	etcd    string
	members []*member
	logs    []string // of ended processes
}

// startTrio starts a trio. It returns the trio also with an error; the caller must stop it.
func startTrio(ctx context.Context, g *goversed, etcd string) (*trio, error) {
	t := &trio{g: g, etcd: etcd}
	addresses, err := port.Servers.Loopback(2 * trioSize)
	if err != nil {
		return t, err
	}
	for i := range trioSize {
		m := &member{address: addresses[i], http: addresses[trioSize+i], client: &http.Client{Transport: &http.Transport{}}}
		t.members = append(t.members, m)
		if err := t.start(m); err != nil {
			return t, err
		}
	}
	_, err = t.settled(ctx)
	return t, err
}

func (t *trio) start(m *member) (err error) {
	m.daemon, err = t.g.run(func(string) {}, "node", "--listen", m.address, "--http", m.http, "--etcd", t.etcd)
	return err
}

// bury waits for a process that was killed.
func (t *trio) bury(ctx context.Context, m *member) {
	_ = m.daemon.wait(ctx) // reports only that it was killed
	m.client.CloseIdleConnections()
	t.logs = append(t.logs, m.daemon.errors.String())
	m.daemon = nil
}

// stop stops all running members.
func (t *trio) stop(ctx context.Context) error {
	var errs []error
	for _, m := range t.members {
		if m.daemon != nil {
			errs = append(errs, m.daemon.stop(ctx))
			t.logs = append(t.logs, m.daemon.errors.String())
			m.daemon = nil
		}
		m.client.CloseIdleConnections()
	}
	return errors.Join(errs...)
}

func (m *member) status(ctx context.Context) (st httpapi.Status, err error) {
	err = m.ask(ctx, "/cluster/status", &st)
	return st, err
}

// ask decodes the content of a page into answer.
func (m *member) ask(ctx context.Context, page string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.http+page, nil)
	if err != nil {
		return err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", req.URL, resp.Status)
	}
	err = json.NewDecoder(resp.Body).Decode(answer)
	_, _ = io.Copy(io.Discard, resp.Body) // to reuse the connection
	return err
}

// settled waits until all three are queued, agree on the queue, and watch each other. It returns them in the
// order of the queue, the leader first.
func (t *trio) settled(ctx context.Context) ([]*member, error) {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		queue, err := t.look(ctx)
		if err == nil {
			return queue, nil
		}
		rest(ctx, 5*time.Millisecond)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the three nodes are not whole within %v: %w", settling, err)
		}
	}
}

func (t *trio) look(ctx context.Context) ([]*member, error) {
	var first []string
	for _, m := range t.members {
		st, err := m.status(ctx)
		switch {
		case err != nil:
			return nil, err
		case first == nil:
			first = st.Queue
		}
		if !st.ClusterReady || len(st.Queue) != trioSize || len(st.Nodes) != trioSize || !slices.Equal(st.Queue, first) ||
			st.IsLeader != (st.Queue[0] == m.address) || st.Crashes.Watches != trioSize-1 {
			return nil, fmt.Errorf("%s shows %+v", m.address, st)
		}
	}
	var queue []*member
	for _, address := range first {
		queue = append(queue, t.members[slices.IndexFunc(t.members, func(m *member) bool { return m.address == address })])
	}
	return queue, nil
}

// accession is the first answer of a process that leads.
type accession struct {
	by     *member
	status httpapi.Status
	at     time.Time
	// unknown is the possible error of at: the member may have begun to lead that much earlier. It is the time
	// since the last request that got a negative answer was sent.
	unknown time.Duration
}

// awaitLeader polls the members until one leads. At the time since, none led. It returns an error if two lead.
func awaitLeader(ctx context.Context, members []*member, since time.Time) (accession, error) {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	type result struct {
		accession
		err error
	}
	results := make(chan result)
	for _, m := range members {
		go func() { // received below
			a, err := m.awaitLead(ctx, since)
			results <- result{a, err}
		}()
	}
	var first accession
	var errs, failed []error
	for range members {
		r := <-results
		switch {
		case first.by != nil && r.err == nil:
			errs = append(errs, fmt.Errorf("%s and %s both say that they lead", first.by.address, r.by.address))
		case first.by != nil: // cancelled above
		case r.err != nil:
			failed = append(failed, r.err)
		default:
			first = r.accession
			cancel()
		}
	}
	if first.by == nil {
		errs = failed
	}
	return first, errors.Join(errs...)
}

func (m *member) awaitLead(ctx context.Context, since time.Time) (accession, error) {
	tick := time.NewTicker(asking)
	defer tick.Stop()
	no := since
	for {
		sent := time.Now()
		st, err := m.status(ctx)
		if err != nil {
			return accession{}, fmt.Errorf("ask %s whether it leads: %w", m.address, err)
		}
		if st.IsLeader {
			now := time.Now()
			return accession{by: m, status: st, at: now, unknown: now.Sub(no)}, nil
		}
		no = sent
		select {
		case <-tick.C:
		case <-ctx.Done():
			return accession{}, ctx.Err()
		}
	}
}

// logLine matches a warning or an error in goversed's log, in which a line looks like "2026-11-21T17:29:05.431Z
// [INFO]  goversed: serving http: address=127.0.0.1:48001".
var logLine = regexp.MustCompile(`^\S+ \[(WARN|ERROR)\]\s+(\S+: .*)$`)

// warnings counts the lines of level WARN and ERROR in the logs of ended processes, without their times and
// values.
func (t *trio) warnings() map[string]int {
	out := map[string]int{}
	for _, log := range t.logs {
		for line := range strings.Lines(log) {
			if m := logLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				text, _, _ := strings.Cut(m[2], "=")
				if i := strings.LastIndex(text, ": "); i > 0 {
					text = text[:i]
				}
				out[m[1]+" "+text]++
			}
		}
	}
	return out
}
