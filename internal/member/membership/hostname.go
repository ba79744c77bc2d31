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

// lookupTimeout bounds one lookup of this node's own host.
const lookupTimeout = 5 * time.Second

// lookupRetry is the pause between two of them.
var lookupRetry = backoff.Policy{First: time.Second, Last: 30 * time.Second}

// LookupHost finds the addresses of a host, as [net.Resolver.LookupHost] does.
type LookupHost func(ctx context.Context, host string) ([]string, error)

// CheckHostname looks the host of this node's own address up, as other nodes do to reach it, until
// it resolves or ctx ends. It warns once: a name may be published only when the node is ready,
// and one that means something to the others alone is none to refuse.
func CheckHostname(ctx context.Context, address string, lookup LookupHost, log hclog.Logger) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return // node.Config.Validate knows better
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
