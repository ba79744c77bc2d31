package reach

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What lasts is told from what may pass, at every address.
func TestWhyEtcdDoesNotAnswer(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	secure.StartTLS()
	defer secure.Close()
	at := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		etcd  string
		lasts bool
		says  string
	}{
		"a web server":            {at(web), true, "is no etcd: give etcd's client address with --etcd, usually port 2379"},
		"nobody":                  {at(gone), false, "dial tcp " + at(gone)},
		"a web server and nobody": {at(web) + "," + at(gone), false, "dial tcp"},
		"a stranger":              {"https://" + at(secure), true, "they are --etcd-cacert, --etcd-cert and --etcd-key"},
		"TLS on one side":         {at(secure), false, "it speaks TLS, and this side does not"},
		"a stranger, a web server": {"https://" + at(secure) + "," +
			at(web), true, "is no etcd: give etcd's client address with --etcd, usually port 2379"},
	} {
		address, err := Why(t.Context(), cluster.Config{EtcdAddress: c.etcd}, context.DeadlineExceeded)
		require.ErrorContains(t, err, c.says, name)
		require.Equal(t, c.lasts, Lasts(err), name)
		require.Contains(t, c.etcd, address, name)
	}
}
