package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The errors of an Authorizer, to test for with errors.Is. Any other is answered as ErrForbidden is.
var (
	// ErrUnauthenticated: the request has no credentials that the authorizer looks at.
	ErrUnauthenticated = errors.New("credentials are required")
	// ErrForbidden: it has, and they do not do.
	ErrForbidden = errors.New("these credentials may not do this")
)

// An Authorizer decides whether a request may change something. caller names who makes it, for the log; it must not be
// a secret. It is called from many goroutines at once. The text of its error goes to the log and not into the answer.
type Authorizer func(r *http.Request) (caller string, err error)

// BearerToken lets requests through that have the token in their header, "Authorization: Bearer TOKEN"; the log calls
// a caller that has it by name. Tokens are compared in a time that says nothing about them. It panics if the token is
// shorter than MinToken, which could be guessed.
func BearerToken(name, token string) Authorizer {
	if len(token) < MinToken {
		panic(fmt.Sprintf("httpapi: the token %q has %d bytes: give %d at least", name, len(token), MinToken))
	}
	return BearerTokens(func() (map[string]string, error) { return map[string]string{name: token}, nil })
}

// MinToken is how many bytes a bearer token has at the least. 32 random ones, in base64 or hex, are good.
const MinToken = 16

// BearerTokens is BearerToken for tokens that change: it asks for them, by name, at each request that has one. Those
// that are shorter than MinToken let nobody through.
func BearerTokens(tokens func() (byName map[string]string, err error)) Authorizer {
	return func(r *http.Request) (string, error) {
		scheme, given, found := strings.Cut(r.Header.Get("Authorization"), " ")
		if !found || !strings.EqualFold(scheme, "Bearer") {
			return "", ErrUnauthenticated
		}
		all, err := tokens()
		if err != nil {
			return "", fmt.Errorf("%w: the tokens cannot be read: %w", ErrForbidden, err)
		}
		// Hashes are of one length, and all of them are compared: neither tells anything.
		have, caller := sha256.Sum256([]byte(strings.TrimSpace(given))), ""
		for name, token := range all {
			want := sha256.Sum256([]byte(token))
			if subtle.ConstantTimeCompare(have[:], want[:]) == 1 && len(token) >= MinToken {
				caller = "token " + name
			}
		}
		if caller == "" {
			return "", fmt.Errorf("%w: the token is not one of those that may", ErrForbidden)
		}
		return caller, nil
	}
}

// ClientCertificate lets requests through on a connection whose client has shown a certificate that the server has
// verified, and that is for one of the names: its common name, or one of its DNS names. Without names every verified
// certificate will do. The server's tls.Config must ask for client certificates and verify them, as with
// tls.VerifyClientCertIfGiven.
func ClientCertificate(names ...string) Authorizer {
	names = slices.Clone(names)
	return func(r *http.Request) (string, error) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return "", ErrUnauthenticated
		}
		leaf := r.TLS.VerifiedChains[0][0]
		its := slices.DeleteFunc(append([]string{leaf.Subject.CommonName}, leaf.DNSNames...),
			func(name string) bool { return name == "" })
		for _, name := range its {
			if len(names) == 0 || slices.Contains(names, name) {
				return "certificate " + name, nil
			}
		}
		if len(names) == 0 {
			return "certificate " + leaf.SerialNumber.String(), nil
		}
		return "", fmt.Errorf("%w: the certificate is for %q", ErrForbidden, its)
	}
}

// AuthorizeFunc is an Authorizer of the program's own check, which the log calls name.
func AuthorizeFunc(name string, check func(r *http.Request) error) Authorizer {
	return func(r *http.Request) (string, error) { return name, check(r) }
}

// AnyOf lets through what one of the authorizers does, asked in their order. If none does, the error is the first that
// is not ErrUnauthenticated, or that.
func AnyOf(all ...Authorizer) Authorizer {
	all = slices.Clone(all)
	return func(r *http.Request) (string, error) {
		first := ErrUnauthenticated
		for _, authorize := range all {
			caller, err := authorize(r)
			if err == nil {
				return caller, nil
			}
			if errors.Is(first, ErrUnauthenticated) && !errors.Is(err, ErrUnauthenticated) {
				first = err
			}
		}
		return "", first
	}
}
