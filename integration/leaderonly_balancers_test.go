//go:build unix

package integration

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
)

// backends are three servers in place of nodes, with configurable responses to writes.
type backends struct {
	t      *testing.T
	server [3]*httptest.Server
	does   [3]atomic.Pointer[http.HandlerFunc]
	asked  [3]atomic.Int64
	again  atomic.Int64 // those with Goverse-Retry
	bodies atomic.Int64 // those with the whole body
}

const sentBody = `{"sent": true}`

func startBackends(t *testing.T) *backends {
	b := &backends{t: t}
	for i := range b.server {
		b.set(i, refuses)
		b.server[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "z") || strings.HasSuffix(r.URL.Path, "/reads") { // a probe
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			b.asked[i].Add(1)
			if r.Header.Get("Goverse-Retry") != "" {
				b.again.Add(1)
			}
			if body, err := io.ReadAll(r.Body); err == nil && string(body) == sentBody {
				b.bodies.Add(1)
			}
			(*b.does[i].Load())(w, r)
		}))
		t.Cleanup(b.server[i].Close)
	}
	return b
}

func (b *backends) set(i int, h http.HandlerFunc) { b.does[i].Store(&h) }

func (b *backends) address(i int) string { return b.server[i].Listener.Addr().String() }

func (b *backends) total() (n int64) {
	for i := range b.asked {
		n += b.asked[i].Swap(0)
	}
	return n
}

func refuses(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Goverse-Refused", "not-leader")
	w.WriteHeader(http.StatusServiceUnavailable)
}

func accepts(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }

// breaks closes the connection after the request was read.
func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// deploy's configurations handle a write that is refused, a write to a node that is down, and a write with a
// broken connection.
func TestBalancerConfigurations(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(b *backends, listen string){
		"nginx": func(b *backends, listen string) {
			doors := kit.Addresses(b.t, 3)
			replace := map[string]string{"listen 8080;": "listen " + listen + ";"}
			for i, door := range []string{"48901", "48902", "48903"} {
				replace[fmt.Sprintf("10.0.0.%d:48001", i+1)] = b.address(i)
				replace[door] = portOf(b.t, doors[i])
			}
			kit.Nginx(b.t, "../deploy/nginx/goverse.conf", replace)
		},
		"haproxy": func(b *backends, listen string) {
			replace := map[string]string{"bind :8080": "bind " + listen}
			for i := range b.server {
				replace[fmt.Sprintf("10.0.0.%d:48001", i+1)] = b.address(i)
			}
			p := kit.Haproxy(b.t, "../deploy/haproxy/goverse.cfg", replace)
			for i := range b.server { // none reports that it leads, so HAProxy relies on their responses
				p.AwaitOutput(b.t, patience, fmt.Sprintf("goverse_writes/node%d is DOWN", i+1))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, listen := startBackends(t), kit.Addresses(t, 1)[0]
			start(b, listen)
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			send := func(method string) (int, string) {
				r, err := http.NewRequest(method, "http://"+listen+"/x?y=z", strings.NewReader(sentBody))
				require.NoError(t, err)
				resp, err := client.Do(r)
				require.NoError(t, err)
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				return resp.StatusCode, string(body)
			}
			procs.Await(t, patience, "it listens", func() error {
				conn, err := net.Dial("tcp", listen)
				if err == nil {
					_ = conn.Close()
				}
				return err
			})

			code, _ := send("POST")
			require.Equal(t, http.StatusServiceUnavailable, code, "all refuse")
			asked := b.total()
			require.GreaterOrEqual(t, asked, int64(20), "it goes round several times")
			require.Equal(t, asked, b.bodies.Load(), "with the body")
			require.GreaterOrEqual(t, b.again.Load(), asked-3, "and says so from the second time on")

			for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
				for i := range b.server {
					b.set(0, refuses)
					b.set(1, refuses)
					b.set(2, refuses)
					b.set(i, accepts)
					for range 3 {
						code, body := send(method)
						require.Equal(t, http.StatusOK, code)
						require.Equal(t, "done", body)
					}
					b.total()
					b.set(i, breaks)
					code, _ := send(method)
					require.Equal(t, http.StatusBadGateway, code, "it may have been carried out")
					require.EqualValues(t, 1, b.asked[i].Load(), "and is not sent again: %s", method)
					b.total()
				}
			}
			b.set(0, refuses)
			b.set(1, refuses)
			b.set(2, accepts)
			b.server[0].Close() // it is down and refuses connections
			for range 10 {
				code, _ := send("POST")
				require.Equal(t, http.StatusOK, code)
			}
		})
	}
}
