package connect

import (
	"net"
	"net/url"
	"slices"
	"time"
)

const (
	// monitorEvery is the interval at which a client's connections are inspected, in memory only.
	monitorEvery = time.Second
	// awayAfter is the time without a connection after which an address counts as not answering.
	awayAfter = 3 * time.Second
	// membersEvery is the interval at which etcd is asked for its members, and membersSoon the one while an
	// address does not answer.
	membersEvery, membersSoon = 10 * time.Second, 3 * time.Second
	// memberTimeout limits a request to one member.
	memberTimeout = time.Second
)

// etcdMember is a voting member of etcd.
type etcdMember struct {
	id   uint64
	urls []string // the addresses that it advertises to clients
}

// awayAddresses returns the addresses that do not answer. states holds their states, in the same order.
func awayAddresses(addresses []string, states []addressState, now time.Time) (out []string) {
	for i, address := range addresses {
		if s := states[i]; s.openConns == 0 && now.Sub(s.awaySince) >= awayAfter {
			out = append(out, address)
		}
	}
	return out
}

// candidateURL is an address that may belong to a member.
type candidateURL struct {
	url    string
	member uint64
}

// candidateURLs returns the members' addresses that are useful to a client that already knows the addresses in
// known, and that speaks TLS if secure is true.
func candidateURLs(members []etcdMember, known []string, secure bool) (out []candidateURL) {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	for _, m := range members {
		for _, advertised := range m.urls {
			u, err := url.Parse(advertised)
			if err != nil || u.Scheme != scheme || u.Host == "" || slices.ContainsFunc(known, func(address string) bool {
				return hostPort(address) == u.Host
			}) {
				continue
			}
			out = append(out, candidateURL{advertised, m.id})
		}
	}
	return out
}

// stillAdvertised returns the adopted addresses that a member still advertises.
func stillAdvertised(adopted []string, members []etcdMember) []string {
	return slices.DeleteFunc(slices.Clone(adopted), func(address string) bool {
		return !slices.ContainsFunc(members, func(m etcdMember) bool { return slices.Contains(m.urls, address) })
	})
}

// meansOtherMachine reports whether an address means a different machine to each of its readers while none of the given
// addresses does. etcd advertises localhost unless it is configured otherwise.
func meansOtherMachine(address string, given []string) bool {
	return meansSelf(address) && !slices.ContainsFunc(given, meansSelf)
}

// meansSelf reports whether an address refers to the reader's own machine.
func meansSelf(address string) bool {
	host, _, err := net.SplitHostPort(hostPort(address))
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// hostPort returns an address without its scheme.
func hostPort(address string) string {
	rest, _ := splitAddress(address)
	return rest
}
