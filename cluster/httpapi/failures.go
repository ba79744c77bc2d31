package httpapi

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// failuresAtOnce is how many authentications may fail in a row before they are limited.
	failuresAtOnce = 10
	// mostAddresses is how many addresses are told apart; further ones share a limit.
	mostAddresses = 1024
)

// failures limits how many authentications fail, for each address apart, so that nobody keeps others out. It is safe
// for concurrent use.
type failures struct {
	limit rate.Limit

	mu        sync.Mutex
	byAddress map[string]*rate.Limiter
	shared    *rate.Limiter
}

func newFailures(limit rate.Limit) *failures {
	return &failures{limit: limit, byAddress: map[string]*rate.Limiter{}, shared: rate.NewLimiter(limit, failuresAtOnce)}
}

// exceeded reports whether too many have failed from there lately.
func (f *failures) exceeded(remote string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byAddress[hostOf(remote)]
	if l == nil && len(f.byAddress) >= mostAddresses {
		l = f.shared
	}
	return l != nil && l.TokensAt(now) < 1
}

// failed takes note of one.
func (f *failures) failed(remote string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	host := hostOf(remote)
	l := f.byAddress[host]
	if l == nil {
		f.forget(now)
		if l = f.shared; len(f.byAddress) < mostAddresses {
			l = rate.NewLimiter(f.limit, failuresAtOnce)
			f.byAddress[host] = l
		}
	}
	l.AllowN(now, 1)
}

// forget makes room, if there is none, by the addresses whose failures are long past.
func (f *failures) forget(now time.Time) {
	if len(f.byAddress) < mostAddresses {
		return
	}
	for host, l := range f.byAddress {
		if l.TokensAt(now) >= failuresAtOnce {
			delete(f.byAddress, host)
		}
	}
}

// hostOf is the IP address of a remote address. An IPv6 host has a whole /64.
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
