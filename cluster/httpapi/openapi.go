package httpapi

import (
	_ "embed"
	"net/http"
)

// openAPIText describes every route, response and problem; tests verify it. Regenerate it with
//
//	go test ./cluster/httpapi -run TestOpenAPIIsCurrent -update
//
//go:embed openapi.json
var openAPIText []byte

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPIText) // fails only if the client has gone
}
