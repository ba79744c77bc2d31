package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
)

// largestPage is more than any page has that is read here, but for the names of many nodes.
const largestPage = 4 << 20

// page is what an HTTP server answered.
type page struct {
	status int
	body   []byte
	clock  *diagnosis.Clock
}

// get asks for a page, over a connection of its own.
func get(ctx context.Context, url string, config *tls.Config) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return page{}, err
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	sent := time.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return page{}, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	p := page{status: resp.StatusCode, clock: clock(resp.Header.Get("Date"), sent, time.Now())}
	p.body, err = io.ReadAll(io.LimitReader(resp.Body, largestPage))
	return p, err
}

// clock is what the date of an answer says of the other machine's clock: the date was cut to a second at some
// instant between the two. Nil if there is none.
func clock(date string, sent, got time.Time) *diagnosis.Clock {
	at, err := http.ParseTime(date)
	if err != nil {
		return nil
	}
	return &diagnosis.Clock{AtLeast: at.Sub(got.Round(0)), AtMost: at.Add(time.Second).Sub(sent.Round(0))}
}

// health asks etcd's client port over HTTP how it is, which takes no user: "" if it is well, or does not say.
func (x *examiner) health(ctx context.Context, address string) (string, *diagnosis.Clock) {
	url := address
	config, err := x.Etcd.NowTLS()
	if err != nil {
		return "", nil
	}
	if !strings.Contains(address, "://") {
		url = "http://" + address
		if config != nil {
			url = "https://" + address
		}
	}
	if config != nil {
		config = config.Clone()
	}
	p, err := get(ctx, strings.TrimSuffix(url, "/")+"/health", config)
	if err != nil {
		return "", nil
	}
	var said struct {
		Health string `json:"health"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(p.body, &said) != nil || said.Health == "" {
		return "", nil // another server's
	}
	if said.Health == "true" {
		return "", p.clock
	}
	if said.Reason == "" {
		said.Reason = "unhealthy"
	}
	return said.Reason, p.clock
}

// http is a configuration for one connection.
func (x *examiner) http() *tls.Config {
	if x.HTTP == nil {
		return nil
	}
	return x.HTTP.Clone()
}

// status asks a node's status API.
func (x *examiner) status(ctx context.Context, address string) *diagnosis.HTTP {
	out := &diagnosis.HTTP{Address: address, Watches: -1, Watchers: -1}
	base := address
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	ready, err := get(ctx, base+"/readyz", x.http())
	if err != nil {
		_, out.Untrusted = errors.AsType[*tls.CertificateVerificationError](err)
		out.Failed = why(err)
		return out
	}
	out.Ready, out.Clock = ready.status == http.StatusOK, ready.clock
	if all, err := get(ctx, base+"/cluster/status", x.http()); err == nil {
		var said struct {
			Crashes *struct {
				Watches  int `json:"watches"`
				Watchers int `json:"watchers"`
			} `json:"crashes"`
		}
		if json.Unmarshal(all.body, &said) == nil && said.Crashes != nil {
			out.Watches, out.Watchers = said.Crashes.Watches, said.Crashes.Watchers
		}
	}
	return out
}
