package httpapi

import "strings"

// apiURL is the URL of an HTTP address as nodes tell it: host:port or a URL.
func apiURL(address string) string {
	if address == "" || strings.Contains(address, "://") {
		return address
	}
	return "http://" + address
}
