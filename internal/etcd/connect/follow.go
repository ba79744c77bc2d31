package connect

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// attendEvery is how often a client's connections are looked at: in memory.
	attendEvery = time.Second
	// awayAfter is how long an address has to be without a connection to count as one that does not answer.
	awayAfter = 3 * time.Second
	// membersEvery is how often etcd is asked for its members, and membersSoon how often while an address does not
	// answer.
	membersEvery, membersSoon = 10 * time.Second, 3 * time.Second
	// memberTimeout bounds a question to one member.
	memberTimeout = time.Second
)

// member is one that votes, as etcd knows it.
type member struct {
	id   uint64
	urls []string // those that it advertises to clients
}

// away are the addresses that do not answer, of states that are theirs.
func away(addresses []string, states []link, now time.Time) (out []string) {
	for i, address := range addresses {
		if s := states[i]; s.open == 0 && now.Sub(s.since) >= awayAfter {
			out = append(out, address)
		}
	}
	return out
}

// candidate is an address that may be a member's.
type candidate struct {
	url    string
	member uint64
}

// candidates are the addresses of the members that are of use to a client with these addresses, which speaks TLS if
// secure, and knows the others already.
func candidates(members []member, known []string, secure bool) (out []candidate) {
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
			out = append(out, candidate{advertised, m.id})
		}
	}
	return out
}

// listed are the adopted addresses that some member still advertises.
func listed(adopted []string, members []member) []string {
	return slices.DeleteFunc(slices.Clone(adopted), func(address string) bool {
		return !slices.ContainsFunc(members, func(m member) bool { return slices.Contains(m.urls, address) })
	})
}

// elsewhere reports whether an address means another machine to each one that reads it, and those given do not:
// etcd advertises localhost unless it is told otherwise.
func elsewhere(address string, given []string) bool {
	return meansSelf(address) && !slices.ContainsFunc(given, meansSelf)
}

// meansSelf reports whether an address is the reader's own machine.
func meansSelf(address string) bool {
	host, _, err := net.SplitHostPort(hostPort(address))
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// hostPort is an address without its scheme.
func hostPort(address string) string {
	if _, rest, ok := strings.Cut(address, "://"); ok {
		address = rest
	}
	return strings.TrimSuffix(address, "/")
}
