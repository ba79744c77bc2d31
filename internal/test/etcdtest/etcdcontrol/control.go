// Package etcdcontrol defines the requests by which a test process controls the etcds in its child process.
//
//	test process ── one connection per request: Request as JSON ──► etcdserver
//	             ◄── Response as JSON ─────────────────────────────
//
// A request ends early when its connection is closed.
package etcdcontrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// Request asks for one action. Exactly one field is set.
type Request struct {
	Start *Config `json:"start,omitempty"` // starts an etcd
	Close int     `json:"close,omitempty"` // closes the etcd of this number
}

// Config configures an etcd. The zero value means a new etcd at a free port with the timing of tests. The fields
// are those of embedetcd.Config.
type Config struct {
	DataDir         string `json:"dataDir,omitempty"`
	ListenClient    string `json:"listenClient,omitempty"`
	AdvertiseClient string `json:"advertiseClient,omitempty"`
	ClientTLS       TLS    `json:"clientTLS,omitzero"`

	// DefaultTiming keeps etcd's own timing, with heartbeats of 100 ms and an election timeout of 1 s.
	DefaultTiming bool `json:"defaultTiming,omitempty"`
}

// TLS names the PEM files for client connections.
type TLS struct {
	CertFile string `json:"cert,omitempty"`
	KeyFile  string `json:"key,omitempty"`
	CAFile   string `json:"ca,omitempty"`
}

// Response answers a Request.
type Response struct {
	Number   int    `json:"number,omitempty"` // of the etcd that was started, from 1
	Endpoint string `json:"endpoint,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Call sends a request to the child process at address and returns its response. If the child process reports an
// error, Call returns it.
func Call(ctx context.Context, address string, req Request) (Response, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return Response{}, fmt.Errorf("reach the process that runs the tests' etcds: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var resp Response
	if err = json.NewEncoder(conn).Encode(req); err == nil {
		err = json.NewDecoder(conn).Decode(&resp)
	}
	switch {
	case err != nil:
		return Response{}, fmt.Errorf("the process that runs the tests' etcds: %w", errors.Join(context.Cause(ctx), err))
	case resp.Error != "":
		return Response{}, errors.New(resp.Error)
	}
	return resp, nil
}
