package httpapi

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// failureBurst is the number of consecutive failures, and of attempts at a time, before the limit applies.
	failureBurst = 10
	// maxAddresses limits the addresses with a limit of their own; further ones share one.
	maxAddresses = 1024
)

// authFailures limits failed authentications. Each address has its own limit, so that no client locks out others. Only
// a client that fails from maxAddresses addresses at a time can do so: all further addresses share one limit. It is
// safe for concurrent use.
type authFailures struct {
	limit rate.Limit

	mu        sync.Mutex
	byAddress map[string]*rate.Limiter
	shared    *rate.Limiter
}

func newAuthFailures(limit rate.Limit) *authFailures {
	return &authFailures{limit: limit, byAddress: map[string]*rate.Limiter{}, shared: rate.NewLimiter(limit, failureBurst)}
}

// takeAttempt counts an attempt of the address as a failure, before its outcome is known. Otherwise concurrent attempts
// would all pass before the first of them fails. It returns the limit to which a successful attempt must be given back,
// or nil if the address has exceeded its limit.
func (f *authFailures) takeAttempt(remote string, now time.Time) *rate.Limiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	host := hostOf(remote)
	l := f.byAddress[host]
	if l == nil {
		f.dropOld(now)
		if l = f.shared; len(f.byAddress) < maxAddresses {
			l = rate.NewLimiter(f.limit, failureBurst)
			f.byAddress[host] = l
		}
	}
	if !l.AllowN(now, 1) {
		return nil
	}
	return l
}

// dropOld removes addresses with old failures if the table is full.
func (f *authFailures) dropOld(now time.Time) {
	if len(f.byAddress) < maxAddresses {
		return
	}
	for host, l := range f.byAddress {
		if l.TokensAt(now) >= failureBurst {
			delete(f.byAddress, host)
		}
	}
}

// hostOf returns the IP address of a remote address. For IPv6 it returns the /64 prefix, which one host may own
// whole.
func hostOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip := net.ParseIP(host)
	if ip == nil || ip.To4() != nil {
		return host
	}
	return ip.Mask(net.CIDRMask(64, 128)).String()
}
