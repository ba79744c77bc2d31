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

// Errors of an Authorizer, to test for with errors.Is. Any other error is answered like ErrForbidden.
var (
	// ErrUnauthenticated is returned for a request without credentials that the authorizer checks.
	ErrUnauthenticated = errors.New("credentials are required")
	// ErrForbidden is returned for a request with insufficient credentials.
	ErrForbidden = errors.New("these credentials may not do this")
)

// Authorizer decides whether a request may change something. caller names the client for the log and must not be
// a secret. An Authorizer is called concurrently. The text of its error goes to the log, not into the response.
type Authorizer func(r *http.Request) (caller string, err error)

// BearerToken accepts requests with the token in their header, "Authorization: Bearer TOKEN". name identifies the
// caller in the log. The time of the comparison does not depend on the tokens. BearerToken panics if the token is
// shorter than MinToken and could be guessed.
func BearerToken(name, token string) Authorizer {
	if len(token) < MinToken {
		panic(fmt.Sprintf("httpapi: the token %q has %d bytes: give %d at least", name, len(token), MinToken))
	}
	return BearerTokens(func() (map[string]string, error) { return map[string]string{name: token}, nil })
}

// MinToken is the minimum length of a bearer token in bytes. A good token has 32 random bytes, in base64 or hex.
const MinToken = 16

// BearerTokens is like BearerToken for tokens that change. It calls tokens for the current ones, by name, at each
// request that has a token. Tokens shorter than MinToken are never accepted.
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
		// Hashes have one length, and all are compared, so the time reveals neither length nor content.
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

// ClientCertificate accepts requests on connections with a client certificate that the server has verified and
// that is for one of the names: its common name, or one of its DNS names. Without names it accepts every verified
// certificate. The server's tls.Config must request and verify client certificates, for example with
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

// AuthorizeFunc returns an Authorizer that uses check. name identifies its callers in the log.
func AuthorizeFunc(name string, check func(r *http.Request) error) Authorizer {
	return func(r *http.Request) (string, error) { return name, check(r) }
}

// AnyOf accepts requests that one of the authorizers accepts, in order. If none does, it returns the first error
// other than ErrUnauthenticated, or ErrUnauthenticated if there is no other.
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
