package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// newTestCommand returns a command with one flag of each type, and the given environment.
func newTestCommand(env map[string]string,
	args ...string) (cmd *cobra.Command, ttl *time.Duration, labels *map[string]string, err error) {
	ttl, labels = new(time.Duration), new(map[string]string)
	cmd = &cobra.Command{Use: "verb", SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ApplyEnv(cmd, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		}}
	cmd.Flags().DurationVar(ttl, "some-ttl", 10*time.Second, "how long")
	cmd.Flags().StringToStringVar(labels, "label", nil, "labels")
	cmd.Flags().Int("count", 0, "how many")
	cmd.Flags().Bool("really", false, "whether")
	cmd.SetArgs(args)
	return cmd, ttl, labels, cmd.Execute()
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	cmd, ttl, labels, err := newTestCommand(map[string]string{"GOVERSE_SOME_TTL": "3s", "GOVERSE_LABEL": "a=b,c=d"})
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, *ttl)
	require.Equal(t, map[string]string{"a": "b", "c": "d"}, *labels)
	require.True(t, cmd.Flags().Changed("some-ttl"), "a variable counts as given")
}

func TestFlagWins(t *testing.T) {
	t.Parallel()
	_, ttl, _, err := newTestCommand(map[string]string{"GOVERSE_SOME_TTL": "3s"}, "--some-ttl", "10s")
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, *ttl)
}

func TestEmptyVariableIsUnset(t *testing.T) {
	t.Parallel()
	cmd, ttl, _, err := newTestCommand(map[string]string{"GOVERSE_SOME_TTL": "", "GOVERSE_HELP": "true"})
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, *ttl)
	require.False(t, cmd.Flags().Changed("some-ttl"))
}

func TestBadVariableIsNamed(t *testing.T) {
	t.Parallel()
	_, _, _, err := newTestCommand(map[string]string{"GOVERSE_SOME_TTL": "soon"})
	require.EqualError(t, err, "environment variable GOVERSE_SOME_TTL=soon: write it like 10s")
	_, _, _, err = newTestCommand(map[string]string{"GOVERSE_LABEL": "novalue"})
	require.ErrorContains(t, err, "GOVERSE_LABEL")
	require.ErrorContains(t, err, "key=value")
}

func TestBadTimeSaysHowToWriteIt(t *testing.T) {
	t.Parallel()
	cmd, _, _, err := newTestCommand(nil, "--some-ttl", "10")
	require.EqualError(t, ExplainBadFlag(cmd, err), "--some-ttl 10: write it like 10s")
	cmd, _, _, err = newTestCommand(nil, "--label", "novalue")
	require.Equal(t, err, ExplainBadFlag(cmd, err))
	cmd, _, _, err = newTestCommand(nil, "--other")
	require.Equal(t, err, ExplainBadFlag(cmd, err))
}

func TestBadNumbersAndSwitchesSayHowToWriteThem(t *testing.T) {
	t.Parallel()
	cmd, _, _, err := newTestCommand(nil, "--count", "many")
	require.EqualError(t, ExplainBadFlag(cmd, err), "--count many: write a whole number, like 3")
	cmd, _, _, err = newTestCommand(nil, "--count=")
	require.EqualError(t, ExplainBadFlag(cmd, err), `--count "": write a whole number, like 3`)
	cmd, _, _, err = newTestCommand(nil, "--really=perhaps")
	require.EqualError(t, ExplainBadFlag(cmd, err), "--really=perhaps: write true or false")
	_, _, _, err = newTestCommand(map[string]string{"GOVERSE_REALLY": "perhaps"})
	require.EqualError(t, err, "environment variable GOVERSE_REALLY=perhaps: write true or false")
}

// Other programs accept long flags with a single dash.
func TestOneDash(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-some-ttl", "3s"}, {"-some-ttl=3s"}} {
		cmd, _, _, err := newTestCommand(nil, args...)
		require.EqualError(t, ExplainBadFlag(cmd, err), "-some-ttl: write it with two dashes, as --some-ttl")
	}
	cmd, _, _, err := newTestCommand(nil, "-s")
	require.EqualError(t, ExplainBadFlag(cmd, err), "unknown shorthand flag: 's' in -s")
}

func TestHelpShowsVariables(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "root"}
	cmd, _, _, err := newTestCommand(nil)
	require.NoError(t, err)
	root.AddCommand(cmd)
	ShowEnv(root)
	usage := cmd.UsageString()
	require.Equal(t, 1, strings.Count(usage, "[GOVERSE_SOME_TTL]"), usage)
	require.NotContains(t, usage, "GOVERSE_HELP")
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	plain := errors.New("failed")
	usage := WrapUsage("prog verb", plain)
	require.Equal(t, ExitOK, ExitCode(nil))
	require.Equal(t, ExitFailure, ExitCode(plain))
	require.Equal(t, ExitUsage, ExitCode(usage))
	require.Equal(t, ExitUsage, ExitCode(fmt.Errorf("wrapped: %w", usage)))
	require.Equal(t, 137, ExitCode(&ExitCodeError{Code: 137}))
	require.Equal(t, 124, ExitCode(fmt.Errorf("wrapped: %w", &ExitCodeError{Code: 124, Err: plain})))
	require.ErrorIs(t, &ExitCodeError{Code: 1, Err: plain}, plain)
	require.ErrorIs(t, usage, plain)
	require.NoError(t, WrapUsage("prog", nil))
	require.Equal(t, usage, WrapUsage("other", usage), "the first to say so knows best")
	require.EqualError(t, usage, "failed; see prog verb --help")
}

func TestReportIsOneLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	PrintError(&out, "prog", nil)
	PrintError(&out, "prog", &ExitCodeError{Code: 3})
	require.Empty(t, out.String())
	PrintError(&out, "prog", errors.Join(errors.New("one"), errors.New("two\r\n  three\n")))
	require.Equal(t, "prog: one: two: three\n", out.String())
}
