package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/daemon"
	"github.com/goverse/goverse/internal/wait"
)

// flaglessVariables lists variables that have a meaning but no flag: some that exec and lock set for COMMAND, and a
// secret.
var flaglessVariables = []string{daemon.AdminTokenVariable, "GOVERSE_KEY", "GOVERSE_KEYS", "GOVERSE_LOCK",
	"GOVERSE_TOKEN"}

// newRoot returns the whole command tree. Env looks up environment variables. Each variable in names that looks
// like one of ours but has no meaning causes a warning.
func newRoot(env func(string) (string, bool), names ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "goversed",
		Short: "Run a node of a Goverse cluster, or inspect and control the cluster",
		Long: `goversed runs a node of a Goverse cluster. A node registers in etcd, always knows which node
leads, queues for leadership, and hands leadership over when it stops. goversed also inspects
and controls a cluster from outside. etcd is your own, or one that goversed embeds.

Each flag has an environment variable, shown in brackets behind it. Flags can also be in the YAML
file that --config names: it has one "flag: value" per line and is read once, at the start. Flags
of other commands are ignored there, so one file can serve all commands. The command line
overrides the environment, and the environment overrides the file.

With -o json a list is {"items": [...], "more": false}; watch and events print one object per line.
Exit codes: 0 success, 1 failure, 2 the command line is wrong. exec and lock have more of them.`,
		Example: `  # start a first node, with an embedded etcd at 127.0.0.1:2379 that stores data in ./goverse-data
  goversed node

  # start two more nodes that join it
  goversed node --etcd 127.0.0.1:2379 --listen 127.0.0.1:47002 --http 127.0.0.1:48002
  goversed node --etcd 127.0.0.1:2379 --listen 127.0.0.1:47003 --http 127.0.0.1:48003

  # show the leader, and transfer leadership
  goversed status
  goversed transfer --to 127.0.0.1:47002

  # show the owners of the shards, and preview the moves if a node left
  goversed shards
  goversed shards plan --without 127.0.0.1:47002

  # show the events of the last hour, and then new ones
  goversed events --since 1h --follow

  # count the objects on each node, and show the state of one
  goversed objects
  goversed objects alice

  # run a command of any language on one host at a time
  goversed exec --election outbox --etcd 127.0.0.1:2379 -- ./publish-outbox
  goversed lock nightly --etcd 127.0.0.1:2379 -- ./backup.sh
  goversed locks

  # move all shards off a node before maintenance
  goversed drain 127.0.0.1:47002

  # read flags from a file, and complete addresses and names in bash
  goversed node --config /etc/goverse/goversed.yaml
  source <(goversed completion bash)

  # find problems, and print the rights that a node needs in etcd
  goversed doctor
  goversed rbac`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommandError(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Name() == cobra.ShellCompRequestCmd || cmd.Name() == cobra.ShellCompNoDescRequestCmd {
				return nil // what it completes reads the flags itself, and is silent
			}
			warnUnknownVariables(cmd, names)
			if err := cli.WrapUsage(cmd.CommandPath(), cli.ApplyEnv(cmd, env)); err != nil || cmd.Name() == guardName {
				return err // a guard has all its flags from its parent
			}
			return cli.ApplyFile(cmd)
		},
	}
	root.PersistentFlags().String(cli.ConfigFlag, "", "YAML `file` with flags, for example etcd: 127.0.0.1:2379; "+
		"read once, at the start")
	root.SetVersionTemplate(versionLine()) // it contains no template syntax
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.WrapUsage(cmd.CommandPath(), cli.ExplainBadFlag(cmd, err))
	})
	root.AddCommand(newNode(env), newDev(), newStatus(), newLeader(), newNodes(), newShards(), newObjects(), newDrain(),
		newElections(), newLocks(), newEffects(), newProcessors(), newEvents(), newEtcd(), newExec(), newLock(), newGuard(),
		newDoctor(), newRBAC(), newWatch(), newResign(), newTransfer(), newProbe(), newVersion())
	root.SetHelpCommand(newHelp(root))
	for _, cmd := range root.Commands() {
		if cmd.Args == nil {
			cmd.Args = rejectArgs
		}
		for _, sub := range cmd.Commands() {
			if sub.Args == nil {
				sub.Args = rejectArgs
			}
		}
	}
	groupCommands(root)
	cli.GroupFlags(root, flagGroups())
	addCompletion(root, env)
	cli.ShowEnv(root)
	return root
}

// warnUnknownVariables warns about variables that belong to no flag. A guard does not warn, because its parent has.
func warnUnknownVariables(cmd *cobra.Command, names []string) {
	unknown, meant := cli.UnknownVariables(cmd.Root(), names, flaglessVariables...)
	if len(unknown) == 0 || cmd.Name() == guardName {
		return
	}
	for i, like := range meant {
		if like != "" {
			unknown[i] += " (" + like + "?)"
		}
	}
	program, out := cmd.Root().Name(), cmd.ErrOrStderr()
	wait.JoinFunc(func() { // a pipe may have no reader
		_, _ = fmt.Fprintf(out, "%s: warning: no command has a flag for the environment variables %s: correct "+
			"them, or take them out\n", program, strings.Join(unknown, ", ")) // a failed write of a warning is ignored
	}, wait.JoinLimit)
}

// rejectArgs rejects arguments. Most commands take only flags, so a single word is a mistake.
func rejectArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unexpectedWordError(cmd, args[0], "everything is given as --flag value")
}

// unexpectedWordError returns the error for a word that cmd does not expect. The error lists the verbs of cmd; without
// any it ends in how.
func unexpectedWordError(cmd *cobra.Command, word, how string) error {
	var verbs []string
	for _, sub := range cmd.Commands() {
		verbs = append(verbs, sub.Name())
	}
	if len(verbs) > 0 {
		how = "the verbs here are " + strings.Join(verbs, ", ")
	}
	return cli.WrapUsage(cmd.CommandPath(), fmt.Errorf("unexpected argument %q: %s", word, how))
}

// requireArgs requires the named arguments. Hint is part of the error about a missing one, and limit of the error
// about too many.
func requireArgs(hint, limit string, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return cli.WrapUsage(cmd.CommandPath(), fmt.Errorf("%s is missing: %s", names[len(args)], hint))
		case len(args) > len(names):
			return cli.WrapUsage(cmd.CommandPath(), fmt.Errorf("unexpected argument %q: %s", args[len(names)], limit))
		}
		return nil
	}
}

func unknownCommandError(root *cobra.Command, name string) error {
	root.SuggestionsMinimumDistance = 2
	err := fmt.Errorf("unknown command %q", name)
	if like := root.SuggestionsFor(name); len(like) > 0 {
		err = fmt.Errorf("unknown command %q: did you mean %s?", name, strings.Join(like, " or "))
	}
	return cli.WrapUsage(root.Name(), err)
}

// newHelp replaces cobra's help command, which prints the usage for an unknown topic.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			switch {
			case err != nil, len(rest) > 0 && cmd == root:
				return unknownCommandError(root, args[0])
			case len(rest) > 0:
				return unexpectedWordError(cmd, rest[0], cmd.CommandPath()+" has no verbs")
			}
			return cmd.Help()
		},
	}
}
