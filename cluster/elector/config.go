package elector

import (
	"cmp"
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
// configurations of packages postgres and redis.
var ErrBadConfig = errors.New("bad elector configuration")

// Config configures an [Elector]. LeaseStore and CandidateID are required.
type Config struct {
	// LeaseStore keeps the record that the candidates compete for.
	LeaseStore LeaseStore
	// CandidateID names this candidate to people and to OnNewLeader. It is UTF-8 without zero bytes, of at most
	// 512 bytes. Two processes with the same ID do not lead together, but cannot be told apart.
	CandidateID string
	// LeaseDuration is the time that others wait for a leader that vanished. A leader that could not renew for
	// that time, less 1 %, no longer leads. The duration of the current holder counts, so candidates may have
	// different ones. Default 15 s.
	LeaseDuration time.Duration
	// RetryPeriod is the longest interval between two renewals of the leader, or between two reads of the
	// others. It is at most half the LeaseDuration. Default 2 s, or LeaseDuration/5 if that is less.
	RetryPeriod time.Duration
	// ReleaseOnCancel makes a leader release the lease when Run is cancelled, after OnStartedLeading and
	// OnStoppedLeading have returned. Otherwise the lease expires.
	ReleaseOnCancel bool

	// OnStartedLeading runs in each term, in a goroutine of its own. Its context holds the term's token
	// (TokenFrom) and ends with the term. It must then return soon: until it has, this candidate neither
	// releases the lease nor leads again. The term continues if OnStartedLeading returns early, even by
	// runtime.Goexit. A panic in any of the three callbacks ends the process. The context's cause is
	// ErrExpired, ErrTaken, or the cause of Run's context.
	OnStartedLeading func(ctx context.Context)
	// OnStoppedLeading runs once for each term, after the term has ended and OnStartedLeading has returned, and
	// before the lease is released. It should not end the process, because the lease would not be released;
	// exit when Run has returned.
	OnStoppedLeading func()
	// OnNewLeader is called for each change of the leader that this candidate observes, in order and one call
	// at a time. The identity is a CandidateID, possibly its own, or "" for no leader. Two successive terms of
	// the same CandidateID are no change, unless this candidate observed a time without a leader between them.
	// Each Run begins without a leader.
	OnNewLeader func(identity string)

	// Logger gets one line per event that concerns an operator. Default: none.
	Logger hclog.Logger
}

const (
	defaultLease = 15 * time.Second
	defaultRetry = 2 * time.Second
	minLease     = 10 * time.Millisecond
	maxLease     = 365 * 24 * time.Hour
	maxID        = 512 // bytes; every store accepts that many
)

func (c Config) withDefaults() Config {
	c.LeaseDuration = cmp.Or(c.LeaseDuration, defaultLease)
	c.RetryPeriod = cmp.Or(c.RetryPeriod, min(defaultRetry, c.LeaseDuration/5))
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

// requestTimeout limits each request to the store. A lease has time for several requests.
func (c Config) requestTimeout() time.Duration {
	return max(c.RetryPeriod, c.LeaseDuration/5)
}

// Validate returns an error that matches [ErrBadConfig] if the configuration is invalid.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case c.LeaseStore == nil:
		return fmt.Errorf("%w: LeaseStore is nil; NewMemory, NewEtcd and packages postgres and redis make one", ErrBadConfig)
	case len(c.CandidateID) > maxID:
		return fmt.Errorf("%w: CandidateID has %d bytes; give it at most %d", ErrBadConfig, len(c.CandidateID), maxID)
	case c.CandidateID == "" || !utf8.ValidString(c.CandidateID) || strings.ContainsRune(c.CandidateID, 0):
		return fmt.Errorf("%w: CandidateID is %q; give it a name in UTF-8, like the host's", ErrBadConfig, c.CandidateID)
	case d.LeaseDuration < minLease || d.LeaseDuration > maxLease:
		return fmt.Errorf("%w: LeaseDuration is %v; give it from %v to %v, or leave it 0 for %v", ErrBadConfig,
			c.LeaseDuration, minLease, maxLease, defaultLease)
	case d.RetryPeriod < time.Millisecond || d.RetryPeriod > d.LeaseDuration/2:
		return fmt.Errorf("%w: RetryPeriod is %v; give it from 1ms to half the LeaseDuration, %v", ErrBadConfig,
			c.RetryPeriod, d.LeaseDuration/2)
	}
	return nil
}
