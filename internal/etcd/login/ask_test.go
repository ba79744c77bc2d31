package login

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// If the function for credentials does not return, in whatever way, only that one log-in fails.
func TestAskForCredentials(t *testing.T) {
	t.Parallel()
	name, password, err := AskCredentials(t.Context(), func() (string, string, error) { return "user", "secret", nil })
	require.NoError(t, err)
	require.Equal(t, []string{"user", "secret"}, []string{name, password})
	refused := errors.New("no file")
	for leave, is := range map[string]func() (string, string, error){
		"no file": func() (string, string, error) { return "", "", refused },
		"panic":   func() (string, string, error) { panic("at the disco") },
		"Goexit":  func() (string, string, error) { runtime.Goexit(); return "", "", nil },
	} {
		_, _, err = AskCredentials(t.Context(), is)
		require.ErrorContains(t, err, leave)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	release, ended := make(chan struct{}), make(chan struct{})
	_, _, err = AskCredentials(ctx, func() (string, string, error) { defer close(ended); <-release; return "", "", nil })
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	<-ended
}
