package pgnode

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state"
)

// Errors of Join and of the methods of a Node; test for them with errors.Is.
var (
	// ErrBadConfig is matched by every error of [Config.Validate].
	ErrBadConfig = cluster.ErrBadConfig
	// ErrDuplicate is matched by the error of Join if another living process has the same id, or the session another node.
	ErrDuplicate = errors.New("another living process has joined with this id; give each process another Owner in its " +
		"pgsession.Config")
	// ErrStopped is returned after Leave, and after the session was closed.
	ErrStopped = cluster.ErrStopped
)

// DefaultElection is the Election of a Config that names none.
const DefaultElection = "leader"

// Limits of the fields of a Config, in bytes. Every node reads those of all others once a second.
const (
	// MaxLabels limits the labels of a node as JSON.
	MaxLabels = 4 << 10
	// MaxText limits HTTPAddress and Version.
	MaxText = 1 << 10
)

// Config configures a [Node]. The zero value works.
type Config struct {
	// HTTPAddress is the address at which this process serves HTTP, as host:port or as a URL, "" if nowhere. Other nodes
	// show it, and forward requests to it.
	HTTPAddress string
	// Version is that of the program.
	Version string
	// Labels are shown to the other nodes.
	Labels map[string]string
	// Election is the name of the election that the nodes stand in. Nodes of one cluster have the same. Default "leader".
	Election string
	// Observer makes the process a node that does not stand for election.
	Observer bool
	// WorkTimeout limits the wait of a leader that gives way for the functions of its term. Default 5 s.
	WorkTimeout time.Duration
	// Logger gets one line per event that concerns an operator. Default: none.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	c.Election = cmp.Or(c.Election, DefaultElection)
	c.WorkTimeout = cmp.Or(c.WorkTimeout, 5*time.Second)
	c.Logger = logqueue.New(c.Logger)
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	return c
}

// Validate returns an error that matches [ErrBadConfig] if the configuration is invalid. It sends no request.
func (c Config) Validate() error {
	if err := state.CheckName("election", cmp.Or(c.Election, DefaultElection)); err != nil {
		return fmt.Errorf("%w: Election: %w", ErrBadConfig, err)
	}
	for name, value := range map[string]string{"HTTPAddress": c.HTTPAddress, "Version": c.Version} {
		if len(value) > MaxText {
			return fmt.Errorf("%w: %s has %d bytes; give at most %d", ErrBadConfig, name, len(value), MaxText)
		}
		if value != storable(value) {
			return fmt.Errorf("%w: %s %.70q has a zero byte or is not UTF-8", ErrBadConfig, name, value)
		}
	}
	if labels, _ := json.Marshal(c.Labels); len(labels) > MaxLabels {
		return fmt.Errorf("%w: Labels have %d bytes as JSON; give at most %d", ErrBadConfig, len(labels), MaxLabels)
	}
	for name, value := range c.Labels {
		if text := name + value; text != storable(text) {
			return fmt.Errorf("%w: the label %.70q has a zero byte or is not UTF-8", ErrBadConfig, name)
		}
	}
	if c.WorkTimeout < 0 {
		return fmt.Errorf("%w: WorkTimeout is %v; give a positive one, or leave it 0 for 5 s", ErrBadConfig, c.WorkTimeout)
	}
	return nil
}

// checkSession returns an error if there is no session.
func checkSession(s *pgsession.Session) error {
	if s == nil {
		return fmt.Errorf("%w: there is no session; open one with package pgsession", ErrBadConfig)
	}
	return nil
}
