package access

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keys(t *testing.T, prefix string) state.Keys {
	t.Helper()
	k, err := state.NewKeys(prefix)
	require.NoError(t, err)
	return k
}

// Every key that a node writes lies in one of its ranges, and every part lies in its range.
func TestRangesHoldTheKeys(t *testing.T) {
	k := keys(t, "/goverse")
	holds := func(r Range, key string) bool {
		return r.Start <= key && (key < r.End || r.End == "" && key == r.Start)
	}
	for _, key := range []string{k.Candidate(1), k.Acting(), k.Request(), k.Node("a:1"), k.Accusation("a:1", "b"),
		k.Drain("a:1"), k.ShardMap(), k.Released("a:1"), k.Doctor("1"), k.Locks().EntryKey("x", 1, 1, state.EntryTraits{}),
		k.Elections().EntryKey("x", 1, 1, state.EntryTraits{}), k.Effects().EntryKey("x", 1, 1, state.EntryTraits{}),
		k.EffectMark("x"),
		k.Checkpoint("x"), k.Silence("a:1", "b"), k.SilenceAccusation("a:1", "b"), k.ParkedEvent("x", "1"),
		k.LeaseRecord("x"), "/goverse/events/1"} {
		n := 0
		for _, r := range Ranges(k, Node) {
			if holds(r, key) {
				n++
			}
		}
		require.Equal(t, 1, n, key)
	}
	for _, p := range Programs() {
		for _, r := range Ranges(k, p) {
			require.NotEmpty(t, r.Purpose)
			require.Equal(t, r.Right == ReadWrite, len(r.Parts) > 0, r)
			for _, part := range r.Parts {
				require.True(t, holds(r, part.Key), part.Key)
				require.NotEmpty(t, part.Purpose)
			}
			if r.Prefix {
				require.True(t, holds(r, r.Start+"\xff") && !holds(r, r.End), r)
			}
		}
	}
}

func TestRequiredRights(t *testing.T) {
	k := keys(t, "/g")
	require.Equal(t, "READ and WRITE on the range /g/leader- to /g/shards0", RequiredRights(k, Node))
	require.Equal(t, "READ on the range /g/leader- to /g/shards0, READ and WRITE on the prefix /g/leader/, "+
		"READ and WRITE on the prefix /g/nodes/", RequiredRights(k, Election))
}

func TestPrograms(t *testing.T) {
	for _, p := range Programs() {
		read, err := ParseProgram(string(p))
		require.NoError(t, err)
		require.Equal(t, p, read)
	}
	_, err := ParseProgram("x")
	require.ErrorIs(t, err, ErrBadProgram)
	require.EqualError(t, err, `unknown program "x": give node, election, exec, lock or operator`)
}

// The documentation shows the same commands.
func TestDocumentationHasTheRanges(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operate/tls-and-rbac.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "With etcd's access control")
	require.True(t, found)
	for _, r := range Ranges(keys(t, "/goverse"), Node) {
		require.Contains(t, section, "    "+r.GrantCommand("ROLE")+"\n")
	}
	require.Equal(t, len(Ranges(keys(t, "/goverse"), Node)), strings.Count(section, "grant-permission"))
	for _, p := range []Program{Exec, Lock} {
		for _, r := range Ranges(keys(t, "/goverse"), p) {
			require.Contains(t, section, "`<prefix>"+strings.TrimPrefix(r.Start, "/goverse")+"`")
		}
	}
}

// A shell reads all names unchanged, whatever characters they have.
func TestQuoting(t *testing.T) {
	role := Role{Keys: keys(t, "/it's;$(a)"), Program: Lock, Name: "a b", User: `"u"`, PasswordFile: "*"}
	var lines []string
	for _, c := range role.Commands() {
		lines = append(lines, c.Line)
	}
	require.Equal(t, []string{`etcdctl role add 'a b'`,
		`etcdctl role grant-permission 'a b' readwrite --prefix '/it'\''s;$(a)/work/locks/'`,
		`etcdctl user add '"u"' --interactive=false <'*'`, `etcdctl user grant-role '"u"' 'a b'`}, lines)
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	out, err := exec.Command(sh, "-c", strings.Replace(lines[1], "etcdctl role", `printf '%s\n'`, 1)).Output()
	require.NoError(t, err)
	require.Equal(t, "grant-permission\na b\nreadwrite\n--prefix\n/it's;$(a)/work/locks/\n", string(out))
}
