package leaderonly

import (
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

// at is the request's own path and query at a base URL of URL's. It is put together field by field: a
// path like //elsewhere must not become the host.
func at(base string, r *url.URL) (*url.URL, bool) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, false
	}
	u.Path, u.RawPath, u.RawQuery = r.Path, r.RawPath, r.RawQuery
	return u, true
}
