// Package problem writes HTTP errors as problem details of RFC 9457.
//
// Not promised: a problem's type need not be the address of a page. It identifies the kind of problem, so that
// programs need not parse its text.
package problem

import (
	"encoding/json"
	"net/http"
)

// MediaType is the Content-Type of a problem.
const MediaType = "application/problem+json"

// BlankType is the type of a problem that says no more than its status.
const BlankType = "about:blank"

// Problem describes the failure of a request. It is a value; Status is required.
type Problem struct {
	// Type is a URI that identifies the kind of problem. Empty means about:blank.
	Type string `json:"type"`
	// Title describes the type, and is the same for all problems of that type. Empty means the text of the
	// status.
	Title string `json:"title"`
	// Status is the HTTP status of the answer.
	Status int `json:"status"`
	// Detail describes this occurrence in one line, with the remedy if there is one.
	Detail string `json:"detail,omitempty"`
}

// withDefaults returns p with its empty fields set to their defaults.
func (p Problem) withDefaults() Problem {
	if p.Type == "" {
		p.Type = BlankType
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	return p
}

// Write answers with the problem and forbids caches to keep it. Headers that w already has are kept.
func Write(w http.ResponseWriter, p Problem) {
	Send(w, p.Status, p.withDefaults())
}

// Send is like Write for a body that extends a problem with members of its own, which RFC 9457 allows.
func Send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", MediaType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}
