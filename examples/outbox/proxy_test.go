//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// proxy is a proxy between the publishers and the sink. It records the events that pass, drops some requests
// and answers, and delays single requests.
type proxy struct {
	client *http.Client

	mu       sync.Mutex
	sink     string   // the sink's URL
	requests int      // so far
	passed   []string // events that the sink accepted, including repeated ones
	largest  int64    // largest token among them
	next     *held    // takes the next request
}

// held is one delayed request.
type held struct {
	forwarded bool          // delay the answer, after the sink has processed the request
	token     chan int64    // receives the sender's token when the request is held
	release   chan struct{} // closed to continue
	answer    chan int      // the sink's answer
}

// hold delays the next request.
func (p *proxy) hold(forwarded bool) *held {
	h := &held{forwarded: forwarded, token: make(chan int64, 1), release: make(chan struct{}), answer: make(chan int, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = h
	return h
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	token, bad := strconv.ParseInt(r.Header.Get(tokenHeader), 10, 64)
	if err != nil || bad != nil {
		http.Error(w, "cut off, or no token", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	h, n, sink := p.next, p.requests, p.sink
	p.next = nil
	p.requests++
	p.mu.Unlock()
	if h == nil && n%200 == 20 {
		http.Error(w, "lost on the way there", http.StatusBadGateway)
		return
	}
	if h != nil && !h.forwarded {
		h.token <- token
		<-h.release
	}
	code := p.forward(r, sink, token, body)
	if h != nil {
		h.answer <- code
		if h.forwarded {
			h.token <- token
			<-h.release
		}
	}
	if h == nil && n%200 == 120 {
		code = http.StatusBadGateway // the answer is lost
	}
	w.WriteHeader(code)
}

// forward forwards the request even if its sender has gone.
func (p *proxy) forward(r *http.Request, sink string, token int64, body []byte) int {
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, sink+r.URL.Path,
		bytes.NewReader(body))
	if err != nil {
		return http.StatusBadGateway
	}
	req.Header = r.Header.Clone()
	answer, err := p.client.Do(req)
	if err != nil {
		return http.StatusBadGateway
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode < 300 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.passed = append(p.passed, strings.TrimPrefix(r.URL.Path, "/events/"))
		p.largest = max(p.largest, token)
	}
	return answer.StatusCode
}

func (p *proxy) do(f func(p *proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}
