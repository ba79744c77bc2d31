// Package problem is how an HTTP answer says what went wrong: an object of problem details, as RFC 9457 has it.
//
// Not promised: that a type is a page. It identifies the kind of a problem, so that programs need not read its text.
package problem

import (
	"encoding/json"
	"net/http"
)

// MediaType is the Content-Type of a problem.
const MediaType = "application/problem+json"

// Blank is the type of a problem that is no more than its status says.
const Blank = "about:blank"

// Problem is what went wrong with a request. It is a value; Status is required.
type Problem struct {
	// Type identifies the kind of problem: a URI. Empty is Blank.
	Type string `json:"type"`
	// Title says what the type means, and is the same for all problems of it. Empty is the status's text.
	Title string `json:"title"`
	// Status is the answer's HTTP status.
	Status int `json:"status"`
	// Detail is one line about this occurrence, with the remedy where there is one.
	Detail string `json:"detail,omitempty"`
}

// withDefaults has the fields that may be left empty.
func (p Problem) withDefaults() Problem {
	if p.Type == "" {
		p.Type = Blank
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	return p
}

// Write answers with the problem, which no cache keeps. Headers that w has already stay as they are.
func Write(w http.ResponseWriter, p Problem) {
	Send(w, p.Status, p.withDefaults())
}

// Send is Write for a problem with members of its own, of which RFC 9457 allows any.
func Send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", MediaType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}
