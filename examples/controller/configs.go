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
	"time"
	"unicode/utf8"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/leaderonly"
)

// IDHeader names the header with the id of a write. The client chooses the id and repeats a write under the
// same one.
const IDHeader = "Idempotency-Key"

// maxValue limits the size of a document, in bytes.
const maxValue = 64 << 10

// storeTimeout limits a read or write of the store.
const storeTimeout = 5 * time.Second

// store keeps the documents, and the answers to writes. etcd.go and postgres.go have one each. All methods are safe
// for concurrent use, and block until the store has answered or ctx ends.
type store interface {
	// get returns a document, or nil if there is none.
	get(ctx context.Context, name string) ([]byte, error)
	// commit writes the document and the answer in one transaction of the term that ctx belongs to, see
	// leaderonly.TermFrom. If there is an answer under that id already, commit returns it as before and writes
	// nothing. conflict reports that it wrote nothing because the document to be created exists. The error matches
	// leaderelection.ErrTermOver if nothing was written because the term is over. Any other error leaves open
	// whether it was written.
	commit(ctx context.Context, a answer, value []byte) (before *answer, conflict bool, err error)
}

// configs serves named documents, which it keeps in a store.
//
//	GET    /configs/{name}   the document
//	PUT    /configs/{name}   the body, a JSON document, replaces it
//	POST   /configs/{name}   the same if there is none yet; otherwise 409
//	DELETE /configs/{name}
type configs struct {
	store store
	node  string // this copy, as answers name it
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

func (c *configs) get(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	document, err := c.store.get(ctx, r.PathValue("name"))
	switch {
	case err != nil:
		replyError(w, http.StatusServiceUnavailable, err.Error())
	case document == nil:
		replyError(w, http.StatusNotFound, "there is no such config")
	default:
		replyJSON(w, http.StatusOK, json.RawMessage(document))
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
		case done != "deleted" && !(json.Valid(value) && utf8.Valid(value)):
			replyError(w, http.StatusBadRequest, "the body is no JSON document")
			return
		}
		sum := sha256.Sum256([]byte(done + "\n" + r.PathValue("name") + "\n" + string(value)))
		a := answer{ID: r.Header.Get(IDHeader), Name: r.PathValue("name"), Done: done, Node: c.node,
			Token: leaderonly.TokenFrom(r.Context()), Request: hex.EncodeToString(sum[:8])}
		if a.ID == "" {
			a.ID = rand.Text() // without an id, a repeated request is not recognised
		}
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		before, conflict, err := c.store.commit(ctx, a, value)
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

func replyError(w http.ResponseWriter, code int, message string) {
	replyJSON(w, code, map[string]string{"error": message})
}

func replyJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}
