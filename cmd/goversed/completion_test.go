package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

// complete returns the completions of the last word, without descriptions, and the directive.
func complete(t *testing.T, env map[string]string, words ...string) (found []string, directive string) {
	t.Helper()
	r := runGoversed(t, env, append([]string{cobra.ShellCompNoDescRequestCmd}, words...)...)
	require.Equal(t, cli.ExitOK, r.code, r.stderr)
	require.NotContains(t, r.stderr, "WARN", "it is silent")
	require.NotContains(t, r.stderr, "etcd", "it is silent")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	last := len(lines) - 1
	return lines[:last], lines[last]
}

// Directives of cobra: no files, all files, directories alone, and files with these extensions.
const noFiles, anyFile, onlyDirectories, fileExtensions = ":4", ":0", ":16", ":8"

func TestCompletionFromEtcd(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	first, second := c.Node(0).Address(), c.Node(1).Address()
	env := map[string]string{"GOVERSE_ETCD": c.Etcd().Endpoint()}
	for i := range 2 {
		e, err := c.Node(i).Cluster().Elections().Stand("outbox")
		require.NoError(t, err)
		c.Eventually(func() bool { return len(e.Queue()) == i+1 }, "it stands")
	}
	_, err := c.Node(1).Cluster().Elections().Stand("a name")
	require.NoError(t, err)
	held, err := c.Node(0).Cluster().Locks().Acquire(t.Context(), "nightly/1")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, held.Release(context.Background())) })
	require.Panics(t, func() {
		_, _ = c.Node(0).Cluster().Once(t.Context(), "mail/2", func(context.Context, int64) ([]byte, error) { panic("oops") })
	})
	done := func(context.Context, int64) ([]byte, error) { return nil, nil }
	_, err = c.Node(0).Cluster().Once(t.Context(), "mail/1", done)
	require.NoError(t, err)
	token := strings.Fields(runGoversed(t, env, "effects", "--unknown").stdout)
	both := []string{first, second}
	if first > second {
		both = []string{second, first}
	}
	for line, want := range map[string][]string{
		"drain |":                             both,
		"drain " + first + " |":               {},
		"drain " + first[:len(first)-1] + "|": {first},
		"transfer --to |":                     both,
		"transfer --to=|":                     both,
		"shards plan --without |":             both,
		"elections resign |":                  {"outbox"},
		"elections transfer o|":               {"outbox"},
		"elections transfer outbox |":         {first, second},
		"elections --after |":                 {"outbox"},
		"exec --election |":                   {"outbox"},
		"lock |":                              {"nightly/1"},
		"lock other|":                         {},
		"effects show |":                      {"mail/1", "mail/2"},
		"effects resolve |":                   {"mail/2"},
		"effects resolve mail/2 |":            {token[len(token)-4]},
		"etcd replace |":                      nil, // any one
		"drain --prefix /other |":             {},
	} {
		words := strings.Split(strings.TrimSuffix(line, "|"), " ")
		found, directive := complete(t, env, words...)
		if line == "etcd replace |" {
			require.Len(t, found, 1)
			continue
		}
		require.ElementsMatch(t, want, found, line)
		require.Equal(t, noFiles, directive, line)
	}
	r := runGoversed(t, env, cobra.ShellCompRequestCmd, "lock", "")
	require.Contains(t, r.stdout, "nightly/1\theld by "+first+"\n")
	file := filepath.Join(t.TempDir(), "goversed.yaml")
	require.NoError(t, os.WriteFile(file, []byte("etcd: "+c.Etcd().Endpoint()+"\n"), 0o600))
	found, _ := complete(t, nil, "--config", file, "lock", "")
	require.Equal(t, []string{"nightly/1"}, found)
	completeInBash(t, c.Etcd().Endpoint(), both)
}

// completeInBash runs the generated script in bash, as the Tab key does.
func completeInBash(t *testing.T, etcd string, nodes []string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(bash, "--norc", "-c", `
		goversed() { "$PROGRAM" "$@"; }
		_init_completion() { # of the package bash-completion
			words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
			cur="${words[cword]}" prev="${words[cword-1]}"
		}
		source <(goversed completion bash)
		press_tab() {
			COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9 COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMPREPLY=()
			__start_goversed
			printf '%s\n' "$1 $2:" "${COMPREPLY[@]}"
		}
		press_tab goversed drain "" 2>/dev/null
		press_tab goversed dra 2>/dev/null
		press_tab goversed status -o "" 2>/dev/null`)
	cmd.Env = append(os.Environ(), runGoversedEnv+"=1", "PROGRAM="+self, "GOVERSE_ETCD="+etcd)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	var said []string
	for line := range strings.Lines(string(out)) {
		word, _, _ := strings.Cut(line, " (") // a description may follow
		said = append(said, strings.TrimSpace(word))
	}
	want := append(append([]string{"goversed drain:"}, nodes...), "goversed dra:", "drain", "goversed status:", "text",
		"json")
	require.Equal(t, want, said)
}

// Words that need no etcd.
func TestCompletionOfEnums(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"status -o |":             {"text", "json", noFiles},
		"node --fallback n|":      {"name", "none", noFiles},
		"node --sharding |":       {"on", "off", noFiles},
		"exec --log-level |":      {"trace", "debug", "info", "warn", "error", "off", noFiles},
		"rbac --for |":            {"node", "election", "exec", "lock", "operator", noFiles},
		"dev --for |":             {noFiles},
		"node --http-cert |":      {anyFile},
		"node --config |":         {"yaml", "yml", fileExtensions},
		"node --data-dir |":       {onlyDirectories},
		"nodes |":                 {noFiles},
		"lock nightly -- |":       {anyFile},
		"exec --election e -- a|": {anyFile},
		"stat|":                   {"status", noFiles},
		"elections |":             {"list", "resign", "transfer", noFiles},
	} {
		found, directive := complete(t, nil, strings.Split(strings.TrimSuffix(line, "|"), " ")...)
		require.Equal(t, want, append(found, directive), line)
	}
}

// Without an answer of etcd there are no completions, no message, and no long wait.
func TestCompletionWithoutEtcd(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mute.Close()) })
	for _, etcd := range []string{"127.0.0.1:1", mute.Addr().String(), "nowhere"} {
		for _, flags := range []string{"", " --etcd-user u --etcd-password p", " --etcd-cacert /none", " --config /none"} {
			began := time.Now()
			found, _ := complete(t, nil, strings.Fields("drain --etcd "+etcd+flags+" 127")...)
			require.Empty(t, found)
			require.Less(t, time.Since(began), 10*time.Second, "a loaded machine is slow, but this has an end")
		}
	}
}
