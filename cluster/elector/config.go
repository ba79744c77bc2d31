package elector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/logs/logqueue"
)

// ErrBadConfig is matched by every error of [Config.Validate] and [EtcdConfig.Validate], and by those of the
// configuration of package postgres.
var ErrBadConfig = errors.New("bad elector configuration")

// Config is what an elector needs. LeaseStore and CandidateID are required.
type Config struct {
	// LeaseStore keeps the record that the candidates compete for.
	LeaseStore LeaseStore
	// CandidateID names this candidate to people and to OnNewLeader: any UTF-8 without zero
	// bytes, of at most 512. Two processes with the same one do not lead together, but cannot be told apart.
	CandidateID string
	// LeaseDuration is how long others wait for a leader that vanished. A leader that could
	// not renew for that long, less 1 %, leads no more. Each holder's own counts, so they
	// need not be the same. Default 15 s.
	LeaseDuration time.Duration
	// RetryPeriod is how often the leader renews and the others look, at the least: half the
	// LeaseDuration or less. Default 2 s, or LeaseDuration/5 if that is less.
	RetryPeriod time.Duration
	// ReleaseOnCancel has a leader whose Run is cancelled give the lease back, once
	// OnStartedLeading and OnStoppedLeading have returned. Otherwise it runs out.
	ReleaseOnCancel bool

	// OnStartedLeading runs in each term, in a goroutine of its own. Its context has the term's
	// token (TokenFrom) and ends when the term does, and it must return soon after: until it has,
	// this candidate neither releases the lease nor leads again. The term goes on when it returns
	// by itself, also by runtime.Goexit; a panic ends the process, as it does in the other two. The
	// context's cause is ErrExpired, ErrTaken, or the cause of Run's context.
	OnStartedLeading func(ctx context.Context)
	// OnStoppedLeading runs once for each term, when the term is over and OnStartedLeading has
	// returned, and before the lease is released. It should not end the process: nothing would
	// be released; exit when Run has returned.
	OnStoppedLeading func()
	// OnNewLeader is notified of each change of who leads that this candidate observes, in order, one
	// call at a time: a CandidateID, its own too, or "" for nobody. A term that follows one of
	// the same CandidateID is no change, unless nobody was seen to lead between them. Each Run
	// begins with nobody.
	OnNewLeader func(identity string)

	// Logger gets one line per event an operator cares about. Default: none.
	Logger hclog.Logger
}

const (
	defaultLease = 15 * time.Second
	defaultRetry = 2 * time.Second
	leastLease   = 10 * time.Millisecond
	mostLease    = 365 * 24 * time.Hour
	mostID       = 512 // bytes; every store takes as much
)

func (c Config) withDefaults() Config {
	if c.LeaseDuration == 0 {
		c.LeaseDuration = defaultLease
	}
	if c.RetryPeriod == 0 {
		c.RetryPeriod = min(defaultRetry, c.LeaseDuration/5)
	}
	if c.OnStartedLeading == nil {
		c.OnStartedLeading = func(context.Context) {}
	}
	if c.OnStoppedLeading == nil {
		c.OnStoppedLeading = func() {}
	}
	if c.OnNewLeader == nil {
		c.OnNewLeader = func(string) {}
	}
	c.Logger = logqueue.New(c.Logger)
	return c
}

// requestTimeout bounds each request to the store. It leaves time for several within a lease.
func (c Config) requestTimeout() time.Duration {
	return max(c.RetryPeriod, c.LeaseDuration/5)
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case c.LeaseStore == nil:
		return fmt.Errorf("%w: LeaseStore is nil; NewMemory, NewEtcd and package postgres make one", ErrBadConfig)
	case len(c.CandidateID) > mostID:
		return fmt.Errorf("%w: CandidateID has %d bytes; give it at most %d", ErrBadConfig, len(c.CandidateID), mostID)
	case c.CandidateID == "" || !utf8.ValidString(c.CandidateID) || strings.ContainsRune(c.CandidateID, 0):
		return fmt.Errorf("%w: CandidateID is %q; give it a name in UTF-8, like the host's", ErrBadConfig, c.CandidateID)
	case d.LeaseDuration < leastLease || d.LeaseDuration > mostLease:
		return fmt.Errorf("%w: LeaseDuration is %v; give it from %v to %v, or leave it 0 for %v", ErrBadConfig,
			c.LeaseDuration, leastLease, mostLease, defaultLease)
	case d.RetryPeriod < time.Millisecond || d.RetryPeriod > d.LeaseDuration/2:
		return fmt.Errorf("%w: RetryPeriod is %v; give it from 1ms to half the LeaseDuration, %v", ErrBadConfig,
			c.RetryPeriod, d.LeaseDuration/2)
	}
	return nil
}
