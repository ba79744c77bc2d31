package main

import (
	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/operator"
)

func newLocks() *cobra.Command {
	kind := listedKind[operator.NamedLock]{noun: "lock", read: (*operator.Operator).Locks, show: operator.PrintLocks}
	cmd := kind.newList(&cobra.Command{
		Use:   "locks",
		Short: "List the locks that are held: by which node, and how many wait",
		Long: `List the locks that are held or waited for, those of goversed lock and of programs that link
Goverse: the holders, each with its fencing token, and how many callers wait. etcd keeps no
time of acquisition; of two tokens, the larger one was granted later.

goversed lock NAME runs a command while holding one.
` + listHelp,
		Example: `  goversed locks
  goversed locks --name-prefix backup/ --limit 20
  goversed locks -o json | jq -r '.items[] | select(.waiting > 0) | [.name, .holders[0].owner, .waiting] | @tsv'`,
	})
	cmd.AddCommand(kind.newListVerb(cmd))
	return cmd
}
