package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/internal/etcd/access"
)

// completionTimeout limits the time that a completion waits for etcd. The wait is canceled then, because a deadline
// would be followed by a search for the cause. stepTimeout is longer than that.
const completionTimeout, stepTimeout = time.Second, time.Minute

// maxCompletions limits the names read from etcd for one completion.
const maxCompletions = 200

// completer completes words from etcd or PostgreSQL. It is silent: without an answer in time there are no completions.
type completer struct {
	env func(string) (string, bool)
}

// completionSource reads completions from etcd or PostgreSQL. Args are the words before the one to complete.
type completionSource struct {
	etcd func(ctx context.Context, o *operator.Operator, args []string, word string) ([]cobra.Completion, error)
	// postgres is nil if there are none in PostgreSQL.
	postgres func(ctx context.Context, at postgresPlace, args []string, word string) ([]cobra.Completion, error)
}

// postgresPlace is a place in PostgreSQL that the flags of a command name.
type postgresPlace struct{ url, schema, table string }

// addCompletion registers the completions of all arguments and flags of root and the commands below it.
func addCompletion(root *cobra.Command, env func(string) (string, bool)) {
	c := completer{env: env}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	nodeAddresses, etcdMemberNames := completionSource{etcd: nodeAddresses}, completionSource{etcd: etcdMemberNames}
	candidatesOf, tokenOf := completionSource{etcd: candidatesOf}, completionSource{etcd: tokenOf}
	effectNames := func(unknown bool) completionSource { return completionSource{etcd: effectNames(unknown)} }
	electionNames := completionSource{electionNames, postgresElectionNames}
	lockNames := completionSource{lockNames, postgresLockNames}
	processorNames := completionSource{processorNames, postgresProcessorNames}
	parkedPositions := completionSource{parkedPositions, postgresParkedPositions}
	arguments := map[string]cobra.CompletionFunc{
		"drain":              c.arguments(nodeAddresses),
		"etcd replace":       c.arguments(etcdMemberNames),
		"elections resign":   c.arguments(electionNames),
		"elections transfer": c.arguments(electionNames, candidatesOf),
		"effects show":       c.arguments(effectNames(false)),
		"effects resolve":    c.arguments(effectNames(true), tokenOf),
		"processors pause":   c.arguments(processorNames),
		"processors resume":  c.arguments(processorNames),
		"processors rewind":  c.arguments(processorNames),
		"processors reset":   c.arguments(processorNames),
		"processors parked":  c.arguments(processorNames),
		"processors retry":   c.arguments(processorNames, parkedPositions),
		"processors drop":    c.arguments(processorNames, parkedPositions),
		"processors unfence": c.arguments(processorNames),
		"lock":               c.command(lockNames),
		"exec":               c.command(),
		"probe":              cobra.NoFileCompletions,
	}
	flags := map[string]cobra.CompletionFunc{
		"output":          fixedWords("text", "json"),
		"fallback":        fixedWords("name", "none"),
		"crash-detection": fixedWords("on", "off"),
		"sharding":        fixedWords("on", "off"),
		"log-level":       fixedWords("trace", "debug", "info", "warn", "error", "off"),
		"to":              c.flag(nodeAddresses),
		"without":         c.flag(nodeAddresses),
		"election":        c.flag(electionNames),
		"node-election":   c.flag(electionNames),
		cli.ConfigFlag:    fileWords("yaml", "yml"),
		"data-dir":        directories,
		"password-file":   files,
	}
	after := map[string]cobra.CompletionFunc{"effects": c.flag(effectNames(false)), "elections": c.flag(electionNames),
		"locks": c.flag(lockNames), "processors": c.flag(processorNames)}
	for name, cmd := range commandsBelow(root, "") {
		if complete, ok := arguments[name]; ok {
			cmd.ValidArgsFunction = complete
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			complete, ok := flags[f.Name]
			switch {
			case ok:
			case f.Name == "for" && f.Value.Type() == "string":
				complete = fixedWords(programNames()...)
			case f.Name == "after":
				complete = after[strings.Fields(name)[0]]
			case isFileFlag(f):
				complete = files
			default:
				return
			}
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // the flag exists
		})
	}
}

// commandsBelow returns the commands below cmd by their path without the name of the program.
func commandsBelow(cmd *cobra.Command, path string) map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	if path != "" {
		all[path] = cmd
	}
	for _, sub := range cmd.Commands() {
		for name, found := range commandsBelow(sub, strings.TrimSpace(path+" "+sub.Name())) {
			all[name] = found
		}
	}
	if path == "" {
		all["goversed"] = cmd
	}
	return all
}

// isFileFlag reports whether the help calls the value of the flag a file.
func isFileFlag(f *pflag.Flag) bool {
	name, _ := pflag.UnquoteUsage(f)
	return name == "file"
}

func programNames() (names []string) {
	for _, p := range access.Programs() {
		names = append(names, string(p))
	}
	return names
}

func fixedWords(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

func fileWords(extensions ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt)
}

func files(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func directories(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// arguments completes the first argument from the first source, and so on.
func (c completer) arguments(sources ...completionSource) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(sources) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.ask(cmd, sources[len(args)], args, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// command is like arguments, for a command line that another one follows behind --. The shell completes that.
func (c completer) command(sources ...completionSource) cobra.CompletionFunc {
	own := c.arguments(sources...)
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(sources) {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return own(cmd, args, word)
	}
}

// flag completes the value of a flag.
func (c completer) flag(source completionSource) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.ask(cmd, source, args, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// ask reads the completions that begin with word, with the connection that cmd would use.
func (c completer) ask(cmd *cobra.Command, source completionSource, args []string, word string) []cobra.Completion {
	if cli.ApplyEnv(cmd, c.env) != nil || cli.ApplyFile(cmd) != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	defer time.AfterFunc(completionTimeout, cancel).Stop()
	var found []cobra.Completion
	at := postgresPlace{url: flagText(cmd, "postgres"), schema: flagText(cmd, "schema"), table: flagText(cmd, "table")}
	inPostgres, err := (&postgresFlags{url: at.url}).used(cmd)
	switch {
	case err != nil:
		return nil
	case !inPostgres:
		found, err = source.askEtcd(ctx, cmd, args, word)
	case source.postgres != nil:
		found, err = source.postgres(ctx, at, args, word)
	}
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(found, func(c cobra.Completion) bool { return !strings.HasPrefix(c, word) })
}

// askEtcd reads the completions from the etcd that cmd would use.
func (s completionSource) askEtcd(ctx context.Context, cmd *cobra.Command, args []string, word string) (
	[]cobra.Completion, error) {
	var cfg cluster.Config
	flags := etcdFlagsOf(cmd)
	release, err := flags.apply(&cfg)
	if err != nil {
		return nil, err
	}
	defer release()
	o, err := operator.Open(ctx, cfg, stepTimeout)
	if err != nil {
		return nil, err
	}
	defer func() { _ = o.Close() }() // only what was read matters
	return s.etcd(ctx, o, args, word)
}

// flagText returns the value of a flag of cmd, "" if it has none of that name.
func flagText(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// etcdFlagsOf returns the flags for the connection to etcd that cmd has.
func etcdFlagsOf(cmd *cobra.Command) *etcdFlags {
	text := func(name string) string { return flagText(cmd, name) }
	return &etcdFlags{address: text("etcd"), prefix: text("prefix"), user: text("etcd-user"),
		password: text("etcd-password"), passwordFile: text("etcd-password-file"), caCert: text("etcd-cacert"),
		cert: text("etcd-cert"), key: text("etcd-key"), fixed: text("etcd-fixed") == "true"}
}
