package main

import (
	"context"
	"slices"
	"strconv"
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

// completer completes words from etcd. It is silent: without an answer of etcd in time there are no completions.
type completer struct {
	env func(string) (string, bool)
}

// completionSource reads completions from etcd. Args are the words before the one to complete.
type completionSource func(ctx context.Context, o *operator.Operator, args []string, word string) (
	[]cobra.Completion, error)

// addCompletion registers the completions of all arguments and flags of root and the commands below it.
func addCompletion(root *cobra.Command, env func(string) (string, bool)) {
	c := completer{env: env}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
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
	var cfg cluster.Config
	flags := etcdFlagsOf(cmd.Flags())
	release, err := flags.apply(&cfg)
	if err != nil {
		return nil
	}
	defer release()
	o, err := operator.Open(ctx, cfg, stepTimeout)
	if err != nil {
		return nil
	}
	defer func() { _ = o.Close() }() // only what was read matters
	found, err := source(ctx, o, args, word)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(found, func(c cobra.Completion) bool { return !strings.HasPrefix(c, word) })
}

// etcdFlagsOf returns the flags for the connection to etcd that fs has.
func etcdFlagsOf(fs *pflag.FlagSet) *etcdFlags {
	text := func(name string) string {
		if f := fs.Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return &etcdFlags{address: text("etcd"), prefix: text("prefix"), user: text("etcd-user"),
		password: text("etcd-password"), passwordFile: text("etcd-password-file"), caCert: text("etcd-cacert"),
		cert: text("etcd-cert"), key: text("etcd-key"), fixed: text("etcd-fixed") == "true"}
}

func nodeAddresses(ctx context.Context, o *operator.Operator, _ []string, _ string) (all []cobra.Completion,
	err error) {
	d, err := o.Read(ctx)
	for _, n := range d.Members {
		all = append(all, cobra.CompletionWithDesc(n.Address, strings.TrimSpace(n.State+" "+n.Hostname)))
	}
	return all, err
}

func electionNames(ctx context.Context, o *operator.Operator, _ []string, word string) (all []cobra.Completion,
	err error) {
	found, err := o.Elections(ctx, stepTimeout, namesFrom(word))
	for _, e := range found.Items {
		all = appendName(all, e.Name, "led by "+e.LeaderID)
	}
	return all, err
}

func candidatesOf(ctx context.Context, o *operator.Operator, args []string, _ string) (all []cobra.Completion,
	err error) {
	found, err := o.Elections(ctx, stepTimeout, namesFrom(args[0]))
	for _, e := range found.Items {
		if e.Name != args[0] {
			continue
		}
		for i, c := range e.Candidates {
			state := "candidate"
			if i == 0 {
				state = "leader"
			}
			all = appendName(all, c.Address, state)
		}
	}
	return all, err
}

func lockNames(ctx context.Context, o *operator.Operator, _ []string, word string) (all []cobra.Completion,
	err error) {
	found, err := o.Locks(ctx, stepTimeout, namesFrom(word))
	for _, l := range found.Items {
		holder := ""
		if len(l.Holders) > 0 {
			holder = "held by " + l.Holders[0].Owner
		}
		all = appendName(all, l.Name, holder)
	}
	return all, err
}

// processorNames completes names of processors with checkpoints in etcd.
func processorNames(ctx context.Context, o *operator.Operator, _ []string, word string) (all []cobra.Completion,
	err error) {
	p, err := o.Processors(stepTimeout)
	if err != nil {
		return nil, err
	}
	found, err := p.List(ctx, stepTimeout, namesFrom(word))
	for _, s := range found.Items {
		all = appendName(all, s.Name, "")
	}
	return all, err
}

// parkedPositions completes positions of events that the processor named by the first argument has parked.
func parkedPositions(ctx context.Context, o *operator.Operator, args []string, _ string) (all []cobra.Completion,
	err error) {
	p, err := o.Processors(stepTimeout)
	if err != nil {
		return nil, err
	}
	parked, err := p.Parked(ctx, args[0])
	for _, e := range parked.Items[:min(len(parked.Items), maxCompletions)] {
		all = appendName(all, string(e.Position), "")
	}
	return all, err
}

// effectNames completes names of effects; with unknown, only of those that can be resolved.
func effectNames(unknown bool) completionSource {
	return func(ctx context.Context, o *operator.Operator, _ []string, word string) (all []cobra.Completion, err error) {
		found, err := o.Effects(ctx, stepTimeout, namesFrom(word), unknown)
		for _, e := range found.Items {
			all = appendName(all, e.Name, string(e.State))
		}
		return all, err
	}
}

// tokenOf completes the token of the effect that the first argument names.
func tokenOf(ctx context.Context, o *operator.Operator, args []string, _ string) ([]cobra.Completion, error) {
	e, err := o.Effect(ctx, args[0])
	if err != nil {
		return nil, err
	}
	return []cobra.Completion{cobra.CompletionWithDesc(strconv.FormatInt(e.Token, 10), string(e.State))}, nil
}

func etcdMemberNames(ctx context.Context, o *operator.Operator, _ []string, _ string) (all []cobra.Completion,
	err error) {
	found, err := o.EtcdMembers(ctx)
	for _, m := range found {
		if m.Name != "" {
			all = appendName(all, m.Name, m.State)
		}
	}
	return all, err
}

// namesFrom selects the names that begin with word.
func namesFrom(word string) operator.ListQuery {
	return operator.ListQuery{NamePrefix: word, Limit: maxCompletions}
}

// appendName appends a name that needs no quotes in a shell and for goversed. Others are left out.
func appendName(all []cobra.Completion, name, description string) []cobra.Completion {
	const special = " \t\r\n\"'`$&|;<>(){}[]*?!~#\\"
	if strings.ContainsAny(name, special) || strings.HasPrefix(name, "-") {
		return all
	}
	return append(all, cobra.CompletionWithDesc(name, description))
}
