package leaderonly

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Handler returns a handler that lets next answer a request only while this process leads; see the package
// comment. Its goroutines end with their requests. Forwarded requests leave connections open, which close when idle,
// or when CloseIdleConnections of Options.Transport is called.
func Handler(l Leadership, next http.Handler, opts Options) http.Handler {
	opts = opts.withDefaults()
	h := &handler{gate: newGate(l, opts.Wait, opts.MaxWaiting), next: next, opts: opts}
	if opts.Elsewhere == Forward {
		h.forwarder = newForwarder(l, opts)
	}
	return h
}

type handler struct {
	gate          *gate
	next          http.Handler
	opts          Options
	forwarder     *forwarder // nil if nothing is forwarded
	unknownLogged atomic.Bool
	foreignLogged atomic.Bool
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.opts.Applies(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	hint := hintOf(r)
	a := h.gate.newAttempt(hint)
	for {
		done, refused := a.runOnLeader(r.Context(), func(ctx context.Context) {
			// Reading a body does not end with a context: a client that sends none would keep the work running.
			ended := make(chan struct{})
			stop := context.AfterFunc(ctx, func() {
				defer close(ended)
				_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // a server without this has limits of its own
			})
			defer func() {
				if !stop() {
					<-ended // w is not used after its request
				}
			}()
			h.next.ServeHTTP(w, r.WithContext(ctx))
		})
		if done {
			return
		}
		direct := refused.reason == NotLeader && refused.leader.URL != "" && !refused.leader.sameTerm(a.tried) &&
			!hint.forwarded
		switch {
		case direct && h.opts.Elsewhere == Redirect:
			redirectToLeader(w, r, refused)
			return
		case direct && h.opts.Elsewhere == Forward:
			if h.forwarder.forwardRequest(w, r, refused) {
				return
			}
			a.tried = refused.leader // the leader was not reached, or refused it: wait for another one
		default:
			switch {
			case refused.reason != NotLeader:
			case refused.leader.Foreign:
				h.logForeignLeader(refused.leader)
			case refused.leader.URL == "":
				refused.detail = h.unknownURLDetail(refused.leader)
			}
			writeRefusal(w, refused)
			return
		}
	}
}

// unknownURLDetail returns the detail of a refusal for which the leader's URL is unknown, and logs that once.
func (h *handler) unknownURLDetail(leader Leader) string {
	if h.opts.Elsewhere != Refuse && !h.unknownLogged.Swap(true) {
		h.opts.Logger.Warn("requests are refused instead of redirected or forwarded: the leader does not say where others "+
			"reach its HTTP; set its cluster.Config.HTTPAddress", "leader", leader.Name)
	}
	return "this node does not lead, and the leader, " + leader.Name + ", does not say where its HTTP is " +
		"(cluster.Config.HTTPAddress); nothing was done; send the request to another node"
}

// logForeignLeader logs once that a leader which is no node answers no requests.
func (h *handler) logForeignLeader(leader Leader) {
	if !h.foreignLogged.Swap(true) {
		h.opts.Logger.Warn("requests are refused: the leader is no node and answers none; hand the leadership to a node "+
			"(goversed transfer), or stop that program", "leader", leader.Name)
	}
}

func hintOf(r *http.Request) requestHint {
	retry := r.Header.Get(RetryHeader)
	h := requestHint{retry: retry != "" && retry != "0"}
	if _, h.forwarded = r.Header[ForwardedHeader]; h.forwarded {
		h.token, _ = strconv.ParseInt(r.Header.Get(ForwardedHeader), 10, 64) // 0 means unknown
	}
	return h
}

// redirectToLeader sends the client to the leader.
func redirectToLeader(w http.ResponseWriter, r *http.Request, to refusal) {
	u, ok := urlAt(to.leader.URL, r)
	if !ok {
		writeRefusal(w, to)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(LeaderHeader, to.leader.URL)
	w.Header().Set(RefusedHeader, string(to.reason))
	http.Redirect(w, r, u.String(), http.StatusTemporaryRedirect)
}
