package problem

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWrite(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Problem{
		`{"type":"about:blank","title":"Not Found","status":404}`: {Status: 404},
		`{"type":"https://example.com/off","title":"It is off","status":403,"detail":"switch it on"}`: {
			Type: "https://example.com/off", Title: "It is off", Status: 403, Detail: "switch it on"},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Retry-After", "1")
		Write(w, p)
		require.Equal(t, p.Status, w.Code)
		require.Equal(t, MediaType, w.Header().Get("Content-Type"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Equal(t, want+"\n", w.Body.String())
	}
}
