package cli

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	root, sub := &cobra.Command{Use: "root"}, &cobra.Command{Use: "sub"}
	root.AddCommand(sub)
	sub.Flags().Duration("some-ttl", 0, "")
	sub.Flags().Duration("some-tts", 0, "")
	unknown, meant := UnknownVariables(root, []string{"GOVERSE_SOME_TTL", "GOVERSE_SOM_TTL", "GOVERSE_ADMIN",
		"GOVERSE_OTHER",
		"PATH", "GOVERSE_HTTP_PORT", "GOVERSE_LONE_PORT",
		"GOVERSE_SERVICE_HOST", "GOVERSE_SERVICE_PORT", "GOVERSE_PORT", "GOVERSE_PORT_47001_TCP_ADDR",
		"GOVERSE_HTTP_SERVICE_HOST", "GOVERSE_HTTP_SERVICE_PORT_API"}, "GOVERSE_ADMIN")
	require.Equal(t, []string{"GOVERSE_SOM_TTL", "GOVERSE_OTHER", "GOVERSE_LONE_PORT"}, unknown)
	require.Equal(t, []string{"GOVERSE_SOME_TTL", "", ""}, meant)
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		d    int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"TTL", "TLT", 2}, {"same", "same", 0}} {
		require.Equal(t, c.d, editDistance(c.a, c.b), "%s %s", c.a, c.b)
	}
}
