package membership

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/wait"
)

// lookupTimeout limits one lookup of this node's own host.
const lookupTimeout = 5 * time.Second

// lookupRetry is the pause between two lookups.
var lookupRetry = backoff.Policy{First: time.Second, Last: 30 * time.Second}

// LookupHost returns the addresses of a host, as [net.Resolver.LookupHost] does.
type LookupHost func(ctx context.Context, host string) ([]string, error)

// CheckHostname looks up the host of this node's own address, as other nodes do to reach it, until it resolves
// or ctx ends. It warns once. It does not refuse the name, because a name may be published only when the node
// is ready, and some names resolve only on other hosts.
func CheckHostname(ctx context.Context, address string, lookup LookupHost, log hclog.Logger) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return // node.Config.Validate reports it better
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return
	}
	retry := backoff.Backoff{Policy: lookupRetry}
	for warned := false; ; warned = true {
		attempt, cancel := context.WithTimeout(ctx, lookupTimeout)
		_, err := lookup(attempt, host)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && warned:
			log.Info("the host of this node's address resolves now", "address", address)
			return
		case err == nil:
			return
		case !warned:
			log.Warn("the host of this node's address does not resolve here, and other nodes reach it by that alone: set "+
				"AdvertiseAddress (--advertise) to a name that resolves, or to an IP address; "+
				"in Kubernetes set publishNotReadyAddresses of the headless service", "address", address, "error", err)
		}
		if !wait.For(ctx, retry.Next()) {
			return
		}
	}
}
