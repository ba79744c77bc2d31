package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/state"
)

type rbacFlags struct {
	prefix, program          string
	role, user, passwordFile string
}

func newRBAC() *cobra.Command {
	f := &rbacFlags{}
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the rights that a program needs in etcd",
		Long: `Print a script of etcdctl commands that creates a role and a user for etcd's access control. The
role has only the rights that the program needs. goversed rbac does not connect to etcd: an
administrator of etcd runs the script, once. Afterwards goversed doctor finds rights that are
missing.

--for selects the program: node is the default, election is a program that takes part only in the
cluster's election, exec and lock are the commands of goversed, and operator is for the other
commands, such as goversed status, transfer, drain, elections, locks and effects.`,
		Example: `  goversed rbac
  goversed rbac --prefix /orders --user orders --password-file password | ETCDCTL_USER=root:secret sh -e
  goversed rbac --for lock --role nightly --user nightly`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			role, err := f.config()
			if err != nil {
				return cli.WrapUsage(cmd.CommandPath(), err)
			}
			return printCommands(cmd.OutOrStdout(), role)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.prefix, "prefix", "/goverse", prefixUsage)
	fs.StringVar(&f.program, "for", string(access.Node),
		"program that needs the rights: node, election, exec, lock or operator")
	fs.StringVar(&f.role, "role", "", "name of the role (default: the user's name, or goverse without a user, "+
		"then a dash and the program)")
	fs.StringVar(&f.user, "user", "goverse", "name of the user; \"none\" creates no user")
	fs.StringVar(&f.passwordFile, "password-file", "", "`file` from which the script reads the user's password (default: "+
		"etcdctl asks for it)")
	return cmd
}

func (f *rbacFlags) config() (access.Role, error) {
	program, err := access.ParseProgram(f.program)
	if err != nil {
		return access.Role{}, fmt.Errorf("--for: %w", err)
	}
	keys, err := state.NewKeys(f.prefix)
	if err != nil {
		return access.Role{}, fmt.Errorf("--prefix: %w", err)
	}
	role := access.Role{Keys: keys, Program: program, Name: f.role, User: f.user, PasswordFile: f.passwordFile}
	switch {
	case role.User == "":
		return access.Role{}, errors.New("--user is empty: give a name, or none")
	case role.User == "none":
		role.User = ""
	}
	if role.Name == "" { // a name per user, because creating an existing role fails
		role.Name = cmp.Or(role.User, "goverse") + "-" + string(program)
	}
	for flag, name := range map[string]string{"--role": role.Name, "--user": role.User,
		"--password-file": f.passwordFile} {
		if strings.ContainsAny(name, "\r\n") || strings.HasPrefix(name, "-") {
			return access.Role{}, fmt.Errorf("%s %q: give a name of one line that does not begin with a dash", flag, name)
		}
	}
	if strings.Contains(role.User, ":") {
		return access.Role{}, fmt.Errorf("--user %s: give a name without a colon, which etcdctl takes for the password's",
			role.User)
	}
	return role, nil
}

func printCommands(out io.Writer, role access.Role) error {
	text := &strings.Builder{}
	program := "goversed " + string(role.Program)
	if role.Program == access.Election {
		program = "a program with cluster/leaderelection alone,"
	}
	fmt.Fprintf(text, "# For %s under %s, by a user with etcd's role root. Access control itself is turned on\n"+
		"# once, when root has a password: etcdctl auth enable\n", program, role.Keys.Prefix())
	if role.Program == access.Node {
		fmt.Fprintf(text, "# A program that links Goverse needs the same, and rights on what it keeps in etcd itself.\n")
	}
	fmt.Fprintf(text, "export ETCDCTL_API=3\n")
	for _, c := range role.Commands() {
		if c.Purpose != "" {
			fmt.Fprintf(text, "# %s:\n", c.Purpose)
		}
		fmt.Fprintln(text, c.Line)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
