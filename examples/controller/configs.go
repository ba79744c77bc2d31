package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/leaderonly"
)

// IDHeader names the header with the id of a write. The client chooses the id and repeats a write under the
// same one.
const IDHeader = "Idempotency-Key"

// maxValue limits the size of a document, in bytes.
const maxValue = 64 << 10

// etcdTimeout limits a read or write of etcd.
const etcdTimeout = 5 * time.Second

// configs serves named documents, which it keeps in etcd.
//
//	GET    /configs/{name}   the document
//	PUT    /configs/{name}   the body, a JSON document, replaces it
//	POST   /configs/{name}   the same if there is none yet; otherwise 409
//	DELETE /configs/{name}
type configs struct {
	etcd     *clientv3.Client
	prefix   string
	node     string
	remember time.Duration

	mu    sync.Mutex
	lease clientv3.LeaseID // attached to the stored ids
	since time.Time        // when it was granted
}

// answer is the response to a write. It is stored under the write's id, so that a repeated write gets it again.
type answer struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Done    string `json:"done"`    // put, created or deleted
	Node    string `json:"node"`    // the node that carried it out
	Token   int64  `json:"token"`   // of its term
	Request string `json:"request"` // a digest of the request
}

func (c *configs) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /configs/{name}", c.get)
	mux.HandleFunc("PUT /configs/{name}", c.write("put"))
	mux.HandleFunc("POST /configs/{name}", c.write("created"))
	mux.HandleFunc("DELETE /configs/{name}", c.write("deleted"))
	return mux
}

func (c *configs) documentKey(name string) string {
	return c.prefix + "configs/" + url.PathEscape(name)
}
func (c *configs) writeKey(id string) string { return c.prefix + "writes/" + url.PathEscape(id) }

func (c *configs) get(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), etcdTimeout)
	defer cancel()
	got, err := c.etcd.Get(ctx, c.documentKey(r.PathValue("name")))
	switch {
	case err != nil:
		replyError(w, http.StatusServiceUnavailable, err.Error())
	case len(got.Kvs) == 0:
		replyError(w, http.StatusNotFound, "there is no such config")
	default:
		replyJSON(w, http.StatusOK, json.RawMessage(got.Kvs[0].Value))
	}
}

// write handles the writes. It runs on the leader only, within its term.
func (c *configs) write(done string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxValue))
		_, tooLarge := errors.AsType[*http.MaxBytesError](err)
		switch {
		case tooLarge:
			replyError(w, http.StatusRequestEntityTooLarge, err.Error())
			return
		case err != nil:
			replyError(w, http.StatusBadRequest, "the body did not come whole: "+err.Error())
			return
		case done != "deleted" && !json.Valid(value):
			replyError(w, http.StatusBadRequest, "the body is no JSON document")
			return
		}
		sum := sha256.Sum256([]byte(done + "\n" + r.PathValue("name") + "\n" + string(value)))
		a := answer{ID: r.Header.Get(IDHeader), Name: r.PathValue("name"), Done: done, Node: c.node,
			Token: leaderonly.TokenFrom(r.Context()), Request: hex.EncodeToString(sum[:8])}
		if a.ID == "" {
			a.ID = rand.Text() // without an id, a repeated request is not recognised
		}
		ctx, cancel := context.WithTimeout(r.Context(), etcdTimeout)
		defer cancel()
		before, conflict, err := c.commit(ctx, a, value)
		switch {
		case errors.Is(err, leaderelection.ErrTermOver):
			// Nothing was written, so the load balancer may send it to the next leader.
			w.Header().Set("Retry-After", "1")
			replyError(w, http.StatusServiceUnavailable, err.Error())
		case err != nil: // no 503: it may have been written
			replyError(w, http.StatusGatewayTimeout, "it is not known whether it was written; send it again with the same "+
				IDHeader+": "+err.Error())
		case before != nil && before.Request != a.Request:
			replyError(w, http.StatusUnprocessableEntity, "this "+IDHeader+" is another request's")
		case before != nil:
			w.Header().Set("Idempotent-Replayed", "true")
			replyJSON(w, http.StatusOK, before)
		case conflict:
			replyError(w, http.StatusConflict, "there is such a config already")
		default:
			replyJSON(w, http.StatusOK, a)
		}
	}
}

// commit writes the document and the answer in one transaction of the term. If there is an answer under that id
// already, commit returns it as before and writes nothing.
func (c *configs) commit(ctx context.Context, a answer, value []byte) (before *answer, conflict bool, err error) {
	lease, err := c.leaseOfIDs(ctx)
	if err != nil {
		return nil, false, err
	}
	before, conflict, err = c.commitWith(ctx, lease, a, value)
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return before, conflict, err
	}
	// The lease was revoked out of band. Nothing was written.
	c.forget(lease)
	if lease, err = c.leaseOfIDs(ctx); err != nil {
		return nil, false, err
	}
	return c.commitWith(ctx, lease, a, value)
}

func (c *configs) commitWith(ctx context.Context, lease clientv3.LeaseID, a answer, value []byte) (
	before *answer, conflict bool, err error) {
	term, _ := leaderonly.TermFrom(ctx)
	record, err := json.Marshal(a)
	if err != nil {
		return nil, false, err
	}
	change := clientv3.OpPut(c.documentKey(a.Name), string(value))
	ifs := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(c.writeKey(a.ID)), "=", 0)}
	switch a.Done {
	case "created":
		ifs = append(ifs, clientv3.Compare(clientv3.CreateRevision(c.documentKey(a.Name)), "=", 0))
	case "deleted":
		change = clientv3.OpDelete(c.documentKey(a.Name))
	}
	resp, err := term.Txn(ctx).If(ifs...).
		Then(change, clientv3.OpPut(c.writeKey(a.ID), string(record), clientv3.WithLease(lease))).
		Else(clientv3.OpGet(c.writeKey(a.ID))).Commit()
	if err != nil || resp.Succeeded {
		return nil, false, err
	}
	kvs := resp.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return nil, true, nil
	}
	before = new(answer)
	return before, false, json.Unmarshal(kvs[0].Value, before)
}

// leaseOfIDs returns a lease that lasts for at least -remember. One lease serves many ids.
func (c *configs) leaseOfIDs(ctx context.Context) (clientv3.LeaseID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease != 0 && time.Since(c.since) < c.remember {
		return c.lease, nil
	}
	since := time.Now()
	granted, err := c.etcd.Grant(ctx, int64((2*c.remember+time.Second-1)/time.Second))
	if err != nil {
		return 0, err
	}
	c.lease, c.since = granted.ID, since
	return c.lease, nil
}

// forget makes leaseOfIDs grant a new lease, unless it has already replaced the given one.
func (c *configs) forget(lease clientv3.LeaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease == lease {
		c.lease = 0
	}
}

func replyError(w http.ResponseWriter, code int, message string) {
	replyJSON(w, code, map[string]string{"error": message})
}

func replyJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}
