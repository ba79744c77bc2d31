package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/internal/port"
)

// member is one `goversed node`, including its restarts at the same address.
type member struct {
	address, http string
	daemon        *daemon // nil while it does not run
	client        *http.Client
}

// daemons are the members of one cluster.
type daemons struct {
	g       *goversed
	etcd    string
	flags   []string // of all members, beside their addresses
	members []*member
	logs    []string // of ended processes
}

// add starts n members.
func (d *daemons) add(n int) error {
	addresses, err := port.Servers.Loopback(2 * n)
	if err != nil {
		return err
	}
	for i := range n {
		m := &member{address: addresses[i], http: addresses[n+i], client: &http.Client{Transport: &http.Transport{}}}
		d.members = append(d.members, m)
		if err := d.start(m); err != nil {
			return err
		}
	}
	return nil
}

func (d *daemons) start(m *member) (err error) {
	flags := append([]string{"node", "--listen", m.address, "--http", m.http, "--etcd", d.etcd}, d.flags...)
	m.daemon, err = d.g.run(func(string) {}, flags...)
	return err
}

// bury waits for a process that was killed.
func (d *daemons) bury(ctx context.Context, m *member) {
	_ = m.daemon.wait(ctx) // reports only that it was killed
	m.client.CloseIdleConnections()
	d.logs = append(d.logs, m.daemon.errors.String())
	m.daemon = nil
}

// stop stops all running members.
func (d *daemons) stop(ctx context.Context) error {
	var errs []error
	for _, m := range d.members {
		if m.daemon != nil {
			errs = append(errs, m.daemon.stop(ctx))
			d.logs = append(d.logs, m.daemon.errors.String())
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

// logLine matches a warning or an error in goversed's log, in which a line looks like "2026-11-21T17:29:05.431Z
// [INFO]  goversed: serving http: address=127.0.0.1:48001".
var logLine = regexp.MustCompile(`^\S+ \[(WARN|ERROR)\]\s+(\S+: .*)$`)

// warnings counts the lines of level WARN and ERROR in the logs of ended processes, without their times and
// values.
func (d *daemons) warnings() map[string]int {
	out := map[string]int{}
	for _, log := range d.logs {
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
