package host

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/test/probepb"
)

// forgetful has a method that looks as if the host called it.
type forgetful struct {
	probepb.UnimplementedProbeServer
}

func (forgetful) Activated(context.Context) {}

// An implementation with an Activated that would never be called is refused, and the error shows the right
// form.
func TestMisdeclaredActivated(t *testing.T) {
	var r registrar
	objects.Register(&r, probepb.RegisterProbeServer, func(context.Context, *objects.Object) (probepb.ProbeServer, error) {
		return forgetful{}, nil
	})
	h := New(limited(Config{Shards: newHeld(4, true)}), NewServices(r.all))
	t.Cleanup(h.Close)
	err := invoke(t.Context(), h, h.services.Method(probepb.Probe_Add_FullMethodName), "a", &probepb.AddRequest{},
		&probepb.AddResponse{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, objects.ReasonActivation, objects.ReasonOf(err))
	require.ErrorContains(t, err, "the method Activated of host.forgetful would not be called: it is to be "+
		"Activated(context.Context) error")
}
