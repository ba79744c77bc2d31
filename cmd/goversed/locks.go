package main

import (
	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/operator"
)

func newLocks() *cobra.Command {
	kind := listedKind[operator.NamedLock]{noun: "lock", read: (*operator.Operator).Locks,
		readPostgres: (*operator.Postgres).Locks, show: operator.PrintLocks}
	cmd := kind.newList(&cobra.Command{
		Use:   "locks",
		Short: "List the locks with their holders and the number of waiting callers",
		Long: `List the locks that are held or waited for, each with its holders, their fencing tokens, and the
number of waiting callers. The list has the locks of goversed lock and of programs that link
Goverse; with --postgres, those that are kept in PostgreSQL. When a lock was granted is not stored,
but of two tokens the larger one was granted later.

goversed lock NAME runs a command while it holds a lock.
` + listHelp,
		Example: `  goversed locks
  goversed locks --name-prefix backup/ --limit 20
  goversed locks -o json | jq -r '.items[] | select(.waiting > 0) | [.name, .holders[0].owner, .waiting] | @tsv'`,
	})
	cmd.AddCommand(kind.newListVerb(cmd))
	return cmd
}
