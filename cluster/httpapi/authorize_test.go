package httpapi

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/logtest"
)

const token = "a token of this test alone"

// post returns a program's request with alterations.
func post(path, body string, alter ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	for _, f := range alter {
		f(r)
	}
	return r
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

// shows makes a request arrive on a connection with a certificate.
func shows(verified bool, cn string, names ...string) func(*http.Request) {
	return func(r *http.Request) {
		leaf := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: cn}, DNSNames: names}
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		if verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf}}
		}
	}
}

func TestAuthorizers(t *testing.T) {
	t.Parallel()
	bearer, two := BearerToken("ops", token), BearerTokens(func() (map[string]string, error) {
		return map[string]string{"old": token, "new": "another token of this test", "short": "x", "empty": ""}, nil
	})
	broken := BearerTokens(func() (map[string]string, error) { return nil, errors.New("no such file") })
	own := AuthorizeFunc("own", func(r *http.Request) error {
		return map[bool]error{true: nil, false: errors.New("not on a Sunday")}[r.Header.Get("X-Day") == "Monday"]
	})
	none := header("Authorization", "")
	for name, tc := range map[string]struct {
		authorize Authorizer
		alter     func(*http.Request)
		caller    string
		is        error
	}{
		"the token":          {bearer, header("x", ""), "token ops", nil},
		"in any case":        {bearer, header("Authorization", "bEARER  "+token+" "), "token ops", nil},
		"none":               {bearer, none, "", ErrUnauthenticated},
		"another scheme":     {bearer, header("Authorization", "Basic "+token), "", ErrUnauthenticated},
		"another one":        {bearer, header("Authorization", "Bearer "+token+"x"), "", ErrForbidden},
		"a part of it":       {bearer, header("Authorization", "Bearer "+token[:20]), "", ErrForbidden},
		"nothing":            {bearer, header("Authorization", "Bearer "), "", ErrForbidden},
		"the new one of two": {two, header("Authorization", "Bearer another token of this test"), "token new", nil},
		"the old one":        {two, header("x", ""), "token old", nil},
		"one that is short":  {two, header("Authorization", "Bearer x"), "", ErrForbidden},
		"one that is empty":  {two, header("Authorization", "Bearer "), "", ErrForbidden},
		"unreadable":         {broken, header("x", ""), "", ErrForbidden},
		"no certificate":     {ClientCertificate(), header("x", ""), "", ErrUnauthenticated},
		"unverified":         {ClientCertificate("ops"), shows(false, "ops"), "", ErrUnauthenticated},
		"any certificate":    {ClientCertificate(), shows(true, "somebody"), "certificate somebody", nil},
		"without a name":     {ClientCertificate(), shows(true, ""), "certificate 7", nil},
		"by common name":     {ClientCertificate("a", "ops"), shows(true, "ops"), "certificate ops", nil},
		"by DNS name": {ClientCertificate("ops.example"), shows(true, "", "ops.example"),
			"certificate ops.example", nil},
		"of somebody else":     {ClientCertificate("ops"), shows(true, "other", "x"), "", ErrForbidden},
		"own":                  {own, header("X-Day", "Monday"), "own", nil},
		"own, refused":         {own, header("x", ""), "own", errAny},
		"the second of two":    {AnyOf(ClientCertificate(), bearer), header("x", ""), "token ops", nil},
		"neither of two":       {AnyOf(ClientCertificate(), bearer), none, "", ErrUnauthenticated},
		"the first is wrong":   {AnyOf(ClientCertificate("a"), bearer), shows(true, "b"), "token ops", nil},
		"the second is wrong":  {AnyOf(ClientCertificate(), bearer), header("Authorization", "Bearer x"), "", ErrForbidden},
		"no authorizer of any": {AnyOf(), header("x", ""), "", ErrUnauthenticated},
	} {
		caller, err := tc.authorize(post("/", "", tc.alter))
		if tc.is == errAny {
			require.Error(t, err, name)
			continue
		}
		require.ErrorIs(t, err, tc.is, name)
		require.Equal(t, tc.caller, caller, name)
	}
	require.Panics(t, func() { BearerToken("ops", "short") })
}

var errAny = errors.New("any")

// The order of the checks, and the text for each refused caller.
func TestRefusals(t *testing.T) {
	t.Parallel()
	log := &logtest.Buffer{}
	h := New(leader(), Options{Admin: &Admin{Authorize: BearerToken("ops", token), Logger: log.Logger()}})
	none, wrong := header("Authorization", ""), header("Authorization", "Bearer guessed, and wrong")
	for name, tc := range map[string]struct {
		handler http.Handler
		request *http.Request
		status  int
		kind    string // "" means about:blank
	}{
		"off": {New(leader(), Options{}), post("/cluster/admin/resign", "{}"), 403, "admin-off"},
		"nobody may": {New(leader(), Options{Admin: &Admin{}}), post("/cluster/admin/resign", "{}"), 403,
			"forbidden"},
		"no token":    {h, post("/cluster/admin/resign", "{}", none), 401, "unauthenticated"},
		"wrong token": {h, post("/cluster/admin/resign", "{}", wrong), 403, "forbidden"},
		"a form": {h, post("/cluster/admin/resign", "a=b", header("Content-Type", "application/x-www-form-urlencoded")), 415,
			""},
		"plain text": {h, post("/cluster/admin/resign", "{}", header("Content-Type", "text/plain")), 415, ""},
		"no type":    {h, post("/cluster/admin/resign", "{}", header("Content-Type", "")), 415, ""},
		"cross site": {h, post("/cluster/admin/resign", "{}", header("Sec-Fetch-Site", "cross-site")), 403, "cross-site"},
		"same site":  {h, post("/cluster/admin/resign", "{}", header("Sec-Fetch-Site", "same-site")), 403, "cross-site"},
		"an origin":  {h, post("/cluster/admin/resign", "{}", header("Origin", "https://evil.example")), 403, "cross-site"},
		"too large":  {h, post("/cluster/admin/resign", strings.Repeat(" ", maxBody+1)), 413, ""},
		"no cluster": {h, post("/cluster/admin/resign", "{}"), 404, "not-shown"},
		"its page":   {h, post("/cluster/admin/resign", "{}", header("Sec-Fetch-Site", "same-origin")), 404, "not-shown"},
	} {
		w := serve(tc.handler, tc.request)
		p := problemIn(t, w)
		require.Equal(t, tc.status, w.Code, name)
		if tc.kind != "" {
			tc.kind = problemTypes + tc.kind
		} else {
			tc.kind = "about:blank"
		}
		require.Equal(t, tc.kind, p.Type, name)
		require.Equal(t, w.Code == 401, w.Header().Get("WWW-Authenticate") != "", name)
	}
	require.Contains(t, problemIn(t, serve(New(leader(), Options{}), post("/cluster/admin/resign", ""))).Detail,
		"--admin-token-file")
	require.NotContains(t, log.String(), token)
	require.NotContains(t, log.String(), "guessed")
	require.Contains(t, log.String(), `by="token ops"`)
	require.Contains(t, log.String(), "status=401")
}

// After ten failures an address is refused unchecked. Other addresses are not affected.
func TestFailuresAreLimited(t *testing.T) {
	t.Parallel()
	log := &logtest.Buffer{}
	h := New(leader(), Options{Admin: &Admin{Authorize: BearerToken("ops", token), Logger: log.Logger(),
		Failures: 0.000001}})
	call := func(remote, token string) int {
		return serve(h, post("/cluster/admin/resign", "{}", from(remote), header("Authorization", "Bearer "+token))).Code
	}
	for i := range failureBurst {
		require.Equal(t, http.StatusForbidden, call(fmt.Sprintf("192.0.2.1:%d", 1000+i), "guess"))
	}
	lines := log.Count("\n")
	for range 50 {
		require.Equal(t, http.StatusTooManyRequests, call("192.0.2.1:5", "guess"))
	}
	require.Equal(t, http.StatusTooManyRequests, call("192.0.2.1:5", token), "also where it is right")
	require.Equal(t, lines, log.Count("\n"), "it does not fill the log")
	require.Equal(t, http.StatusNotFound, call("192.0.2.2:5", token), "from elsewhere it is not refused")
	for range 2 * failureBurst {
		require.Equal(t, http.StatusNotFound, call("192.0.2.2:5", token), "nor however often")
	}
}

func TestFailuresForgive(t *testing.T) {
	t.Parallel()
	f, at := newAuthFailures(1), time.Unix(0, 0)
	for range failureBurst {
		require.NotNil(t, f.takeAttempt("[2001:db8::1]:1", at))
	}
	require.Nil(t, f.takeAttempt("[2001:db8::2]:1", at), "a host has a whole /64")
	require.NotNil(t, f.takeAttempt("[2001:db8:0:1::2]:1", at))
	require.NotNil(t, f.takeAttempt("[2001:db8::1]:1", at.Add(time.Second)), "one a second")

	for i := range 2 * maxAddresses { // memory use is bounded
		f.takeAttempt(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), at)
	}
	require.Len(t, f.byAddress, maxAddresses)
	require.Nil(t, f.takeAttempt("10.9.9.9:1", at), "those that are too many share a limit")
	require.NotNil(t, f.takeAttempt("10.9.9.9:1", at.Add(time.Hour)))
	require.Len(t, f.byAddress, 1)
}

// Of attempts at the same time, no more are checked than of attempts one after the other.
func TestFailuresAtATimeAreLimited(t *testing.T) {
	t.Parallel()
	entered, goOn, codes := make(chan struct{}), make(chan struct{}), make(chan int)
	h := New(leader(), Options{Admin: &Admin{Failures: 0.000001, Authorize: func(*http.Request) (string, error) {
		entered <- struct{}{}
		<-goOn
		return "", ErrUnauthenticated
	}}})
	for range 2 * failureBurst {
		go func() { codes <- serve(h, post("/cluster/admin/resign", "{}", from("192.0.2.1:1"))).Code }()
	}
	checked := 0
	for range 2 * failureBurst {
		select {
		case <-entered:
			checked++
		case code := <-codes:
			require.Equal(t, http.StatusTooManyRequests, code)
		}
	}
	close(goOn)
	for range checked {
		require.Equal(t, http.StatusUnauthorized, <-codes)
	}
	require.Equal(t, failureBurst, checked)
}
