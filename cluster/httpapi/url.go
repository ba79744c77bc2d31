package httpapi

import "strings"

// apiURL returns the URL of an HTTP address in the form that nodes use: host:port or a URL.
func apiURL(address string) string {
	if address == "" || strings.Contains(address, "://") {
		return address
	}
	return "http://" + address
}
