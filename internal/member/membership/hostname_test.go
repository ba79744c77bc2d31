package membership

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/logtest"
)

// errNoHost is the error of a failed lookup.
var errNoHost = errors.New("no such host")

// A name that is published late causes one warning, and one line when it resolves.
func TestHostThatResolvesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logtest.Buffer{}
		began, asked := time.Now(), 0
		lookup := func(_ context.Context, host string) ([]string, error) {
			require.Equal(t, "late.example", host)
			if asked++; time.Since(began) < time.Minute {
				return nil, errNoHost
			}
			return []string{"192.0.2.1"}, nil
		}
		CheckHostname(t.Context(), "late.example:47001", lookup, log.Logger())
		require.Equal(t, 1, strings.Count(log.String(), "does not resolve"), log)
		require.Contains(t, log.String(), "[INFO]  the host of this node's address resolves now: "+
			"address=late.example:47001\n")
		require.Less(t, time.Since(began), 2*time.Minute)
		require.Less(t, asked, 10)
	})
}

func TestHostsThatAreNotWarnedOf(t *testing.T) {
	t.Parallel()
	log := &logtest.Buffer{}
	never := func(context.Context, string) ([]string, error) { panic("looked up") }
	for _, address := range []string{"192.0.2.1:1", "[2001:db8::1]:1", "[fe80::1%eth0]:1"} {
		CheckHostname(t.Context(), address, never, log.Logger())
	}
	CheckHostname(t.Context(), "here.example:1", func(context.Context, string) ([]string,
		error) {
		return []string{"192.0.2.1"}, nil
	}, log.Logger())
	ctx, stop := context.WithCancel(t.Context())
	CheckHostname(ctx, "late.example:1", func(context.Context, string) ([]string, error) { stop(); return nil, errNoHost },
		log.Logger())
	require.Empty(t, log.String())
}
