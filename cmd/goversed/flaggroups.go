package main

import (
	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

// flagGroups lists the groups in which the help shows flags. What is in none is the command's own.
func flagGroups() []cli.FlagGroup {
	return []cli.FlagGroup{
		{Title: "Node", Names: []string{"listen", "advertise", "http", "label"}},
		{Title: "Time limits", Names: []string{"ttl", "start-timeout", "stop-timeout", "grace", "timeout"}},
		{Title: "Connection to etcd", Names: []string{"etcd", "prefix", "etcd-user", "etcd-password",
			"etcd-password-file", "etcd-fixed"}},
		{Title: "Connection to PostgreSQL", Names: []string{"postgres", "schema", "table", "node-election"}},
		{Title: "TLS", Names: []string{"etcd-cacert", "etcd-cert", "etcd-key", "node-cert", "node-key", "node-ca",
			"http-cert", "http-key", "http-client-ca", "http-ca", "cacert"}},
		{Title: "Embedded etcd", Names: []string{"data-dir", "etcd-listen", "etcd-advertise", "etcd-cluster", "etcd-name",
			"etcd-peer-listen", "etcd-serve-cert", "etcd-serve-key", "etcd-serve-ca", "etcd-peer-cert", "etcd-peer-key",
			"etcd-peer-ca"}},
		{Title: "Election and crash detection", Names: []string{"observer", "fallback", "crash-detection",
			"silence-timeout", "crash-watchers", "crash-grace-period", "crash-confirmations"}},
		{Title: "Shards", Names: []string{"sharding", "shards", "weight", "shard-drain-timeout", "shard-moves-per-minute",
			"shard-window", "shard-min-members", "shard-exclude"}},
		{Title: "Admin calls over HTTP", Names: []string{"admin-client", "admin-token-file"}},
		{Title: "Output", Names: []string{"output", "verbose", "log-level", "log-json"}},
		{Title: "General", Names: []string{cli.ConfigFlag, "help", "version"}},
	}
}

// The groups in which the help of goversed shows its commands.
const (
	groupRun    = "run"
	groupShow   = "show"
	groupChange = "change"
	groupSetUp  = "setup"
)

// groupCommands adds the groups of commands to root. A command of none is shown last.
func groupCommands(root *cobra.Command) {
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Run:"}, &cobra.Group{ID: groupShow, Title: "Show:"},
		&cobra.Group{ID: groupChange, Title: "Change:"}, &cobra.Group{ID: groupSetUp, Title: "Set up and check:"})
	for group, names := range map[string][]string{
		groupRun: {"node", "dev", "exec", "lock"},
		groupShow: {"status", "leader", "nodes", "shards", "objects", "elections", "locks", "effects", "processors",
			"events",
			"watch", "etcd"},
		groupChange: {"drain", "resign", "transfer"},
		groupSetUp:  {"doctor", "rbac", "probe", "version", "completion", "help"},
	} {
		for _, name := range names {
			for _, cmd := range root.Commands() {
				if cmd.Name() == name {
					cmd.GroupID = group
				}
			}
		}
	}
	root.SetCompletionCommandGroupID(groupSetUp)
	root.SetHelpCommandGroupID(groupSetUp)
}
