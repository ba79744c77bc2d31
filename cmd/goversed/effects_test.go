package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
)

func TestEffectsCommands(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	node, address := c.Node(0).Cluster(), c.Node(0).Address()
	env := map[string]string{"GOVERSE_ETCD": c.Etcd().Endpoint()}
	ask := func(into any, args ...string) string {
		t.Helper()
		if into != nil {
			args = append(args, "-o", "json")
		}
		r := runGoversed(t, env, append([]string{"effects"}, args...)...)
		require.Equal(t, cli.ExitOK, r.code, r.stderr)
		require.Empty(t, r.stderr)
		if into != nil {
			require.NoError(t, json.Unmarshal([]byte(r.stdout), into))
		}
		return r.stdout
	}
	refused := func(code int, says string, args ...string) {
		t.Helper()
		requireOneLine(t, runGoversed(t, env, append([]string{"effects"}, args...)...), code, says)
	}
	require.Equal(t, "no effects under /goverse\n", ask(nil))
	require.Equal(t, "{\"items\":[],\"more\":false}\n", ask(nil, "list", "-o", "json"))

	_, err := node.Once(ctx, "mail/1", func(context.Context, int64) ([]byte, error) { return []byte("number 1"), nil })
	require.NoError(t, err)
	const odd = "a \"bill\"\n"
	for _, name := range []string{"mail/2", odd} {
		require.Panics(t, func() {
			_, _ = node.Once(ctx, name, func(context.Context, int64) ([]byte, error) { panic("oops") })
		})
	}
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := node.Once(ctx, "mail/3", func(context.Context, int64) ([]byte, error) {
			close(inside)
			<-goOn
			return nil, nil
		})
		ended <- err
	}()
	<-inside

	all := ask(nil, "list")
	for _, row := range []string{`"a \"bill\"\n"  unknown  1 `, "mail/1          done     1 ",
		"mail/2          unknown  1 ", "mail/3          running  1 "} {
		require.Contains(t, all, "\n"+row)
	}
	require.Equal(t, all, ask(nil))
	var some operator.List[operator.Effect]
	ask(&some, "--limit", "1")
	require.True(t, some.More)
	require.Equal(t, odd, some.Items[0].Name)
	after := some.Next
	require.Equal(t, `"a \"bill\"\n"`, after)
	some = operator.List[operator.Effect]{}
	ask(&some, "--after", after, "--unknown")
	require.False(t, some.More)
	require.Len(t, some.Items, 1)
	require.Equal(t, "mail/2", some.Items[0].Name)
	some = operator.List[operator.Effect]{}
	ask(&some, "--name-prefix", "mail/", "--limit", "2")
	require.True(t, some.More)
	require.Equal(t, "mail/2", some.Next)
	require.Len(t, some.Items, 2)

	require.Contains(t, ask(nil, "show", "mail/1"), "result    \"number 1\"\n")
	tokens := map[string]string{}
	for _, name := range []string{"mail/1", "mail/2", "mail/3", odd} {
		var e operator.Effect
		ask(&e, "show", name)
		tokens[name] = fmt.Sprint(e.Token)
	}
	require.Contains(t, ask(nil, "show", "mail/2"), "goversed effects resolve NAME "+tokens["mail/2"]+" --done")

	refused(cli.ExitFailure, "mail/3, attempt 1 by "+address+", token "+tokens["mail/3"]+": that attempt still runs: "+
		"its session lives", "resolve", "mail/3", tokens["mail/3"], "--failed")
	refused(cli.ExitFailure, "is done: the outcome of that attempt is not unknown", "resolve", "mail/1", tokens["mail/1"],
		"--failed")
	refused(cli.ExitFailure, "is unknown: it is not the attempt with token 1; look at it anew", "resolve", "mail/2", "1",
		"--failed")
	refused(cli.ExitFailure, "nothing is known of that effect", "resolve", "mail/4", "1", "--failed")
	refused(cli.ExitFailure, "nothing is known of that effect", "show", "mail/2", "--prefix", "/other")
	require.Equal(t, "mail/2 is done (attempt 1, token "+tokens["mail/2"]+"): it took place, and is not run again\n",
		ask(nil, "resolve", "mail/2", tokens["mail/2"], "--done", "--result", "by hand"))
	r, err := node.Once(ctx, "mail/2", func(context.Context, int64) ([]byte, error) { panic("it took place") })
	require.NoError(t, err)
	require.Equal(t, "by hand", string(r.Value))
	var e operator.Effect
	ask(&e, "resolve", `"a \"bill\"\n"`, tokens[odd], "--failed")
	require.EqualValues(t, "failed", e.State)
	r, err = node.Once(ctx, odd, func(context.Context, int64) ([]byte, error) { return nil, nil })
	require.NoError(t, err)
	require.Equal(t, 2, r.Attempt)
	refused(cli.ExitFailure, "attempt 2 by ", "resolve", odd, tokens[odd], "--done")
	close(goOn)
	require.NoError(t, <-ended)

	for line, says := range map[string]string{
		"show":                           "NAME is missing: goversed effects shows",
		"show a b":                       `unexpected argument "b": one effect at a time`,
		`show "a`:                        `NAME "a: a word that begins with a quotation mark`,
		"resolve a":                      "TOKEN is missing",
		"resolve a b --done":             `TOKEN "b": give the token of the attempt`,
		"resolve a 0 --done":             `TOKEN "0": give the token of the attempt`,
		"resolve a 1":                    "either --done or --failed",
		"resolve a 1 --done --failed":    "either --done or --failed",
		"resolve a 1 --failed --result=": "--result is only for an effect that took place",
		"--limit -1":                     "--limit -1: give a number from 1 up, or 0 for all",
		"stray":                          `unexpected argument "stray": the verbs here are list, resolve, show`,
		"list stray":                     `unexpected argument "stray"`,
	} {
		refused(cli.ExitUsage, says, strings.Fields(line)...)
	}
	refused(cli.ExitUsage, "NAME: bad name", "show", "")
	refused(cli.ExitUsage, "--after: bad name", "--after", strings.Repeat("x", 513))
	refused(cli.ExitUsage, "--result has 65537 bytes: give 65536 at most", "resolve", "a", "1", "--done", "--result",
		strings.Repeat("x", 65537))
}
