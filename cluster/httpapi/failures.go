package httpapi

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// failuresAtOnce is the number of consecutive failures allowed before the limit applies.
	failuresAtOnce = 10
	// mostAddresses limits the addresses with a limit of their own; further ones share one.
	mostAddresses = 1024
)

// failures limits failed authentications. Each address has its own limit, so that no client locks out others. It
// is safe for concurrent use.
type failures struct {
	limit rate.Limit

	mu        sync.Mutex
	byAddress map[string]*rate.Limiter
	shared    *rate.Limiter
}

func newFailures(limit rate.Limit) *failures {
	return &failures{limit: limit, byAddress: map[string]*rate.Limiter{}, shared: rate.NewLimiter(limit, failuresAtOnce)}
}

// exceeded reports whether the address has exceeded its limit.
func (f *failures) exceeded(remote string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byAddress[hostOf(remote)]
	if l == nil && len(f.byAddress) >= mostAddresses {
		l = f.shared
	}
	return l != nil && l.TokensAt(now) < 1
}

// failed counts one failure.
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

// forget removes addresses with old failures if the table is full.
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
