package leaderonly

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// URL is the base URL of an HTTP address as nodes give it: host:port, or a URL with http or https, of
// which scheme and host are taken; "" if it is neither, or names no host.
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
		return "" // it means another machine to everybody
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// at is what a request asked for, at a base URL of URL's. It is put together field by field: a path like
// //elsewhere must not become the host.
func at(base string, r *http.Request) (*url.URL, bool) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, false
	}
	asked := asSent(r)
	u.Path, u.RawPath, u.RawQuery = asked.Path, asked.RawPath, asked.RawQuery
	return u, true
}

// asSent is the URL that the client sent: a middleware like http.StripPrefix may have changed r's, and the leader has
// the same middleware.
func asSent(r *http.Request) *url.URL {
	if sent, err := url.ParseRequestURI(r.RequestURI); err == nil {
		return sent
	}
	return r.URL
}
