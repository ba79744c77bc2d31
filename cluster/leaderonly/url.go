package leaderonly

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// URL returns the base URL of an HTTP address in the form that nodes use: host:port, or a URL with http or https,
// reduced to its scheme and host. It returns "" if the address is neither, or names no host.
func URL(address string) string {
	if address == "" {
		return ""
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "" || err == nil && ip.IsUnspecified() {
		return "" // every process would take it for its own machine
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// urlAt returns the requested URL at a base URL returned by URL. It is assembled field by field, so that a path like
// //elsewhere cannot become the host.
func urlAt(base string, r *http.Request) (*url.URL, bool) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, false
	}
	asked := sentURL(r)
	u.Path, u.RawPath, u.RawQuery = asked.Path, asked.RawPath, asked.RawQuery
	return u, true
}

// sentURL returns the URL that the client sent. Middleware like http.StripPrefix may have changed r's, and the
// leader has the same middleware.
func sentURL(r *http.Request) *url.URL {
	if sent, err := url.ParseRequestURI(r.RequestURI); err == nil {
		return sent
	}
	return r.URL
}
