//go:build unix

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/node"
)

// enableRootOnly turns access control on with the administrator as the only user, and returns its client.
func enableRootOnly(t *testing.T, etcd *procs.Etcd) *clientv3.Client {
	t.Helper()
	open := etcd.Client(t, "", "")
	_, err := open.UserAdd(requestContext(t), administrator, administrator)
	require.NoError(t, err)
	_, err = open.RoleAdd(requestContext(t), administrator)
	require.NoError(t, err)
	_, err = open.UserGrantRole(requestContext(t), administrator, administrator)
	require.NoError(t, err)
	_, err = open.AuthEnable(requestContext(t))
	require.NoError(t, err)
	return etcd.Client(t, administrator, administrator)
}

// userRights holds the rights of a user as printed by goversed rbac.
type userRights struct {
	etcd    *procs.Etcd
	admin   *clientv3.Client
	program access.Program
	secret  string // the file with the password, which is the user's name
}

// grant creates the role, and a user named after the program, with the printed script.
func grant(t *testing.T, etcd *procs.Etcd, admin *clientv3.Client, program access.Program) *userRights {
	t.Helper()
	r := &userRights{etcd: etcd, admin: admin, program: program, secret: filepath.Join(t.TempDir(), "password")}
	require.NoError(t, os.WriteFile(r.secret, []byte(string(program)+"\n"), 0o600))
	printed := kit.Goversed(t, "rbac", "--prefix", procs.Prefix, "--for", string(program), "--role",
		"role-of-"+string(program),
		"--user", string(program), "--password-file", r.secret)
	require.Zero(t, printed.Exit(t, patience), printed.Output())
	r.apply(t, printed.Output())
	return r
}

// apply runs a script like an administrator: in a shell if there is an etcdctl, otherwise through a client.
func (r *userRights) apply(t *testing.T, script string) {
	t.Helper()
	if _, err := exec.LookPath("etcdctl"); err != nil {
		r.byClient(t, script)
		return
	}
	cmd := exec.CommandContext(requestContext(t), "sh", "-e")
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "ETCDCTL_ENDPOINTS="+r.etcd.Endpoint, "ETCDCTL_API=3",
		"ETCDCTL_USER="+administrator+":"+administrator)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", script, out)
}

// byClient carries out the same commands without etcdctl.
func (r *userRights) byClient(t *testing.T, script string) {
	t.Helper()
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "etcdctl" {
			require.True(t, strings.HasPrefix(line, "#") || strings.HasPrefix(line, "export "), line)
			continue
		}
		verb, args := words[1]+" "+words[2], words[3:]
		end := func(from int) (start, end string) {
			switch rest := args[from:]; {
			case rest[0] == "--prefix":
				return rest[1], clientv3.GetPrefixRangeEnd(rest[1])
			case len(rest) == 1:
				return rest[0], ""
			default:
				return rest[0], rest[1]
			}
		}
		var err error
		switch verb {
		case "role add":
			_, err = r.admin.RoleAdd(requestContext(t), args[0])
		case "role grant-permission":
			kind, known := map[string]clientv3.PermissionType{"read": clientv3.PermissionType(clientv3.PermRead),
				"readwrite": clientv3.PermissionType(clientv3.PermReadWrite)}[args[1]]
			require.True(t, known, line)
			start, end := end(2)
			_, err = r.admin.RoleGrantPermission(requestContext(t), args[0], start, end, kind)
		case "role revoke-permission":
			start, end := end(1)
			_, err = r.admin.RoleRevokePermission(requestContext(t), args[0], start, end)
		case "user add":
			_, err = r.admin.UserAdd(requestContext(t), args[0], string(r.program))
		case "user grant-role":
			_, err = r.admin.UserGrantRole(requestContext(t), args[0], args[1])
		default:
			t.Fatalf("unknown command: %s", line)
		}
		require.NoError(t, err, line)
	}
}

// goversed runs a verb as the user, and returns its exit code and its output.
func (r *userRights) goversed(t *testing.T, args ...string) (int, string) {
	t.Helper()
	args = append([]string{args[0], "--etcd", r.etcd.Endpoint, "--prefix", procs.Prefix, "--etcd-user", string(r.program),
		"--etcd-password-file", r.secret}, args[1:]...)
	p := kit.Start(t, "goversed "+args[0], kit.GoversedPath(t), args, nil)
	return p.Exit(t, patience), p.Output()
}

func (r *userRights) mustGoversed(t *testing.T, args ...string) string {
	t.Helper()
	code, out := r.goversed(t, args...)
	require.Zero(t, code, out)
	return out
}

// finding is one finding of goversed doctor in its JSON form.
type finding struct {
	Check    string `json:"check"`
	Severity string `json:"severity"`
	Says     string `json:"says"`
	Remedy   string `json:"remedy"`
}

// severities lists the severities of findings in their order.
var severities = []string{"ok", "note", "warning", "problem"}

// doctor returns the finding of goversed doctor about the user's rights.
func (r *userRights) doctor(t *testing.T) finding {
	t.Helper()
	code, out := r.goversed(t, "doctor", "--ttl", "2s", "--for", string(r.program), "-o", "json")
	var said struct {
		Findings []finding `json:"findings"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &said), out)
	problem := slices.ContainsFunc(said.Findings, func(f finding) bool { return f.Severity == "problem" })
	require.Equal(t, problem, code == 1, out)
	i := slices.IndexFunc(said.Findings, func(f finding) bool { return f.Check == "access" })
	require.GreaterOrEqual(t, i, 0, "there is no finding about rights: %s", out)
	require.Contains(t, severities, said.Findings[i].Severity)
	return said.Findings[i]
}

// awaitFinding waits until the doctor's finding about the rights contains all these texts. The doctor has timeouts and
// may run on a busy machine.
func (r *userRights) awaitFinding(t *testing.T, least string, says ...string) {
	t.Helper()
	procs.Await(t, patience, "the doctor finds it", func() error {
		f := r.doctor(t)
		for _, one := range says {
			if !strings.Contains(f.Says, one) && !strings.Contains(f.Remedy, one) {
				return fmt.Errorf("%w: %q in %v", errMismatch, one, f)
			}
		}
		order := slices.Index(severities, f.Severity) - slices.Index(severities, least)
		if order < 0 || least == "ok" && order > 0 {
			return fmt.Errorf("%w: %v", errMismatch, f)
		}
		return nil
	})
}

// checkEachRight revokes each right, and the write part of each alone if there is one, and checks that the doctor
// names it.
func (r *userRights) checkEachRight(t *testing.T) {
	t.Helper()
	keys, err := state.NewKeys(procs.Prefix)
	require.NoError(t, err)
	r.awaitFinding(t, "ok")
	role := "role-of-" + string(r.program)
	all := access.Ranges(keys, r.program)
	for _, one := range all {
		denied := "READ"
		for _, other := range all { // a user may read a range in which it may write some parts
			if other.String() != one.String() && other.Start <= one.Start && one.Start < other.End && one.End <= other.End {
				denied = "WRITE"
			}
		}
		r.apply(t, one.RevokeCommand(role)+"\n")
		r.awaitFinding(t, "warning", denied, "on "+one.String(), one.GrantCommand("ROLE"))
		if one.Right == access.ReadWrite {
			reading := one
			reading.Right = access.Read
			r.apply(t, reading.GrantCommand(role)+"\n")
			r.awaitFinding(t, "warning", fmt.Sprintf("denies the user %q WRITE on %v", r.program, one))
			r.apply(t, one.RevokeCommand(role)+"\n")
		}
		r.apply(t, one.GrantCommand(role)+"\n")
	}
	r.awaitFinding(t, "ok")
}

// joinCluster starts a node in this process, as the user.
func (r *userRights) joinCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	cfg := cluster.Config{EtcdAddress: r.etcd.Endpoint, EtcdPrefix: procs.Prefix, Username: string(r.program),
		Password: string(r.program), LeaderElectionTTL: 10}
	cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 16, 20*time.Millisecond, 2
	c, err := cluster.NewClusterWithNode(cfg, n)
	require.NoError(t, err)
	require.NoError(t, c.Start(requestContext(t)))
	t.Cleanup(func() { require.NoError(t, c.Stop(context.WithoutCancel(t.Context()))) })
	return c
}

// works makes two nodes use everything that nodes use in etcd.
func works(t *testing.T, first, second *cluster.Cluster) {
	t.Helper()
	ctx := requestContext(t)
	var unknown any
	served := errors.New("served")
	err := first.Lead(ctx, func(ctx context.Context, _ leaderelection.Term) error { return served })
	require.ErrorIs(t, err, served)
	require.Eventually(t, func() bool {
		_, ok := first.Member(second.Status().NodeID)
		return ok
	}, patience, time.Millisecond)
	require.NoError(t, first.Transfer(ctx, second.Status().NodeID))
	require.Eventually(t, second.IsLeader, patience, time.Millisecond)

	require.Eventually(t, func() bool {
		for _, c := range []*cluster.Cluster{first, second} {
			err := c.Shards().Serve(ctx, "a key", func(context.Context, int64) error { return served })
			if errors.Is(err, served) {
				return true
			}
			var other *shard.NotOwnerError
			require.ErrorAs(t, err, &other)
		}
		return false
	}, patience, 10*time.Millisecond)

	held, err := first.Locks().Acquire(ctx, "a lock")
	require.NoError(t, err)
	require.NoError(t, held.Release(ctx))

	for _, c := range []*cluster.Cluster{first, second} {
		_, err := c.Elections().Stand("jobs")
		require.NoError(t, err)
	}
	result, err := second.Once(ctx, "mail/1", func(context.Context, int64) ([]byte, error) { return []byte("sent"), nil })
	require.NoError(t, err)
	require.Equal(t, "sent", string(result.Value))
	func() {
		defer func() { unknown = recover() }()
		_, _ = first.Once(ctx, "mail/2", func(context.Context, int64) ([]byte, error) { panic("in the middle") })
	}()
	require.NotNil(t, unknown)

	mark, err := first.Checkpoints().Claim(ctx, "views", 1)
	require.NoError(t, err)
	mark, err = first.Checkpoints().Advance(ctx, "views", mark, func(context.Context) (processor.Progress, error) {
		return processor.Progress{Position: "7"}, nil
	})
	require.NoError(t, err)
	require.EqualValues(t, "7", mark.Position)
}

// The roles printed by goversed rbac suffice for each kind of program. Without any one of their rights, the
// doctor names it. Neither leaves anything in etcd.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		etcd := kit.StartEtcd(t, flavour)
		admin := enableRootOnly(t, etcd)
		nodes := grant(t, etcd, admin, access.Node)
		first, second := nodes.joinCluster(t), nodes.joinCluster(t)
		works(t, first, second)

		operators := grant(t, etcd, admin, access.Operator)
		require.Contains(t, operators.mustGoversed(t, "status"), second.Status().NodeID)
		operators.mustGoversed(t, "transfer", "--to", first.Status().NodeID)
		operators.mustGoversed(t, "resign")
		operators.mustGoversed(t, "shards")
		operators.mustGoversed(t, "drain", second.Status().NodeID)
		operators.mustGoversed(t, "drain", "--undo", second.Status().NodeID)
		operators.mustGoversed(t, "elections")
		operators.mustGoversed(t, "elections", "resign", "jobs")
		operators.mustGoversed(t, "locks")
		var effect struct {
			Token int64 `json:"token"`
		}
		require.NoError(t, json.Unmarshal([]byte(operators.mustGoversed(t, "effects", "show", "mail/2", "-o", "json")),
			&effect))
		operators.mustGoversed(t, "effects", "resolve", "mail/2", strconv.FormatInt(effect.Token, 10), "--done")

		execs, locks := grant(t, etcd, admin, access.Exec), grant(t, etcd, admin, access.Lock)
		execs.mustGoversed(t, "exec", "--election", "outbox", "--", "true")
		locks.mustGoversed(t, "lock", "nightly", "--", "true")

		before := keysBelow(t, admin)
		for _, r := range []*userRights{grant(t, etcd, admin, access.Election), operators, execs, locks} {
			r.checkEachRight(t)
		}
		require.Equal(t, before, keysBelow(t, admin))
	})
	t.Run("a node's", func(t *testing.T) {
		t.Parallel()
		onEach(t, func(t *testing.T, flavour procs.Flavour) {
			t.Parallel()
			etcd := kit.StartEtcd(t, flavour)
			admin := enableRootOnly(t, etcd)
			grant(t, etcd, admin, access.Node).checkEachRight(t)
			require.Empty(t, keysBelow(t, admin))
		})
	})
	t.Run("without etcdctl", func(t *testing.T) {
		t.Parallel()
		etcd := kit.StartEtcd(t, procs.Etcd37)
		r := &userRights{etcd: etcd, admin: enableRootOnly(t, etcd), program: access.Operator,
			secret: secretOf(t, access.Operator)}
		printed := kit.Goversed(t, "rbac", "--prefix", procs.Prefix, "--for", "operator", "--user", "operator")
		require.Zero(t, printed.Exit(t, patience), printed.Output())
		r.byClient(t, printed.Output())
		r.awaitFinding(t, "ok")
	})
}

// secretOf returns a file with the password of a program's user.
func secretOf(t *testing.T, program access.Program) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(path, []byte(program), 0o600))
	return path
}

// keysBelow returns the names of the cluster's keys.
func keysBelow(t *testing.T, admin *clientv3.Client) string {
	t.Helper()
	resp, err := admin.Get(requestContext(t), procs.Prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	var out bytes.Buffer
	for _, kv := range resp.Kvs {
		fmt.Fprintln(&out, string(kv.Key))
	}
	return out.String()
}
