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

// maxPageSize limits the size of a page. Only a status with the names of very many nodes is larger.
const maxPageSize = 4 << 20

type httpPage struct {
	status int
	body   []byte
	clock  *diagnosis.Clock
}

// getPage requests a page over a connection of its own.
func getPage(ctx context.Context, url string, config *tls.Config) (httpPage, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return httpPage{}, err
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	sent := time.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return httpPage{}, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	p := httpPage{status: resp.StatusCode, clock: clockOffset(resp.Header.Get("Date"), sent, time.Now())}
	p.body, err = io.ReadAll(io.LimitReader(resp.Body, maxPageSize))
	return p, err
}

// clockOffset returns the offset of the other machine's clock according to the date of an answer. The server
// truncated that date to a second at some time between sent and got. The result is nil without a date.
func clockOffset(date string, sent, got time.Time) *diagnosis.Clock {
	at, err := http.ParseTime(date)
	if err != nil {
		return nil
	}
	return &diagnosis.Clock{AtLeast: at.Sub(got.Round(0)), AtMost: at.Add(time.Second).Sub(sent.Round(0))}
}

// readHealth requests /health from etcd's client port, which needs no user. The text is "" if etcd is healthy, or
// if there is no answer.
func (x *examiner) readHealth(ctx context.Context, address string) (string, *diagnosis.Clock) {
	url := address
	config, err := x.Etcd.HandshakeTLS()
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
	p, err := getPage(ctx, strings.TrimSuffix(url, "/")+"/health", config)
	if err != nil {
		return "", nil
	}
	var said struct {
		Health string `json:"health"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(p.body, &said) != nil || said.Health == "" {
		return "", nil // not etcd's answer
	}
	if said.Health == "true" {
		return "", p.clock
	}
	if said.Reason == "" {
		said.Reason = "unhealthy"
	}
	return said.Reason, p.clock
}

// httpTLSConfig returns a TLS configuration for one connection.
func (x *examiner) httpTLSConfig() *tls.Config {
	if x.HTTP == nil {
		return nil
	}
	return x.HTTP.Clone()
}

// readStatus reads a node's status API.
func (x *examiner) readStatus(ctx context.Context, address string) *diagnosis.HTTPStatus {
	out := &diagnosis.HTTPStatus{Address: address, Watches: -1, Watchers: -1}
	base := address
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	ready, err := getPage(ctx, base+"/readyz", x.httpTLSConfig())
	if err != nil {
		_, out.Untrusted = errors.AsType[*tls.CertificateVerificationError](err)
		out.Failed = findingText(err)
		return out
	}
	out.Ready, out.Clock = ready.status == http.StatusOK, ready.clock
	if all, err := getPage(ctx, base+"/cluster/status", x.httpTLSConfig()); err == nil {
		var said struct {
			Crashes *struct {
				Watches  int `json:"watches"`
				Watchers int `json:"watchers"`

				SilenceTimeout float64 `json:"silence_timeout_seconds"`
			} `json:"crashes"`
		}
		if json.Unmarshal(all.body, &said) == nil && said.Crashes != nil {
			out.Watches, out.Watchers = said.Crashes.Watches, said.Crashes.Watchers
			out.SilenceTimeout = time.Duration(said.Crashes.SilenceTimeout * float64(time.Second))
		}
	}
	return out
}
