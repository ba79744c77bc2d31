package state

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func testKeys(t testing.TB) Keys {
	t.Helper()
	keys, err := NewKeys("/goverse")
	require.NoError(t, err)
	return keys
}

func TestNewKeysRefusesBadPrefixes(t *testing.T) {
	for _, prefix := range []string{"", "goverse", "/", "/a/", "//a", "/a//b", "/a/../b", "/..", "/a/.", "/a b", "/a\nb",
		"/a\x7f"} {
		_, err := NewKeys(prefix)
		require.ErrorIs(t, err, ErrBadPrefix, "%q", prefix)
		require.NotContains(t, err.Error(), "\n", "one line")
	}
	_, err := NewKeys("/a/b//")
	require.EqualError(t, err, `bad etcd prefix "/a/b//": it must not end with a slash: use /a/b`)
	_, err = NewKeys("/")
	require.EqualError(t, err,
		`bad etcd prefix "/": it must not be empty or have an empty segment; use something like /goverse`)
	for _, prefix := range []string{"/goverse", "/a/b/c", "/ümlaut", "/a..b", "/-"} {
		_, err := NewKeys(prefix)
		require.NoError(t, err, "%q", prefix)
	}
}

// One watch delivers the whole state: every key of the state sorts into the range, and no other key does.
func TestRangeHoldsTheState(t *testing.T) {
	k := testKeys(t)
	for _, key := range []string{k.Candidate(1), k.Candidate(1 << 62), k.Acting(), k.Request(), k.Node("a:1"),
		k.Accusation("a:1", "b"), k.Drain("a:1"), "/goverse/shards/map", "/goverse/shards/released/a:1",
		k.Silence("a:1", "b"), k.Doctor("x")} {
		require.True(t, key >= k.RangeStart() && key < k.RangeEnd(), key)
	}
	for _, name := range []string{"checkpoints", "elections", "events", "work"} {
		key := k.Prefix() + "/" + name + "/x"
		require.False(t, key >= k.RangeStart() && key < k.RangeEnd(), key)
	}
	for _, key := range []string{"/goverse/leader", "/goverse2/leader/1", "/goversf", k.SilenceAccusation("a:1", "b"),
		k.SilenceAccusation("/~", "\xff"), k.SilenceAccusations()} {
		require.False(t, key >= k.RangeStart() && key < k.RangeEnd(), key)
	}
	require.True(t, k.Candidate(7) >= k.Queue() && k.Candidate(7) < k.QueueEnd())
	require.False(t, k.Acting() >= k.Queue() && k.Acting() < k.QueueEnd())
}

func TestCandidateKeyIsSpelledAsElectionSpellsIt(t *testing.T) {
	require.Equal(t, "/goverse/leader/694d8f3c2a1b0e07", testKeys(t).Candidate(0x694d8f3c2a1b0e07))
}

func TestParseTellsEveryKeyFromEveryOther(t *testing.T) {
	k := testKeys(t)
	weird := "a/b%2Fc:1"
	for key, want := range map[string]ParsedKey{
		k.Candidate(0xabc):            {Kind: KindCandidate, Lease: 0xabc},
		"/goverse/leader/x/y":         {Kind: KindCandidate},
		"/goverse/leader/0abc":        {Kind: KindCandidate}, // not the spelling of a lease
		"/goverse/leader/-1":          {Kind: KindCandidate},
		k.Acting():                    {Kind: KindActing},
		k.Request():                   {Kind: KindRequest},
		k.Node(weird):                 {Kind: KindNode, Address: weird},
		k.Accusation(weird, "x/y"):    {Kind: KindAccusation, Address: weird, Accuser: "x/y"},
		k.Silence(weird, "x/y"):       {Kind: KindSilence, Address: weird, Watcher: "x/y"},
		"/goverse/nodes-silent/a":     {},
		k.Drain(weird):                {Kind: KindDrain, Address: weird},
		"/goverse/nodes-drain/":       {},
		"/goverse/nodes-drain/a/b":    {},
		"/goverse/shards/map":         {Kind: KindShardMap},
		"/goverse/shards/released/a":  {Kind: KindReleased, Address: "a"},
		"/goverse/nodes/":             {},
		"/goverse/nodes/a/b":          {},
		"/goverse/nodes/%zz":          {},
		"/goverse/leader-else":        {},
		k.SilenceAccusation("a", "b"): {},
		k.Doctor("x"):                 {},
		"/other/nodes/a":              {},
		"":                            {},
	} {
		require.Equal(t, want, k.Parse(key), key)
	}
}

// With plain prefixes a name "a/b" would lie under the name "a".
func TestNamesDoNotLieUnderEachOther(t *testing.T) {
	k := testKeys(t)
	require.False(t, strings.HasPrefix(k.Node("a/b"), k.Node("a")+"/"))
	require.False(t, strings.HasPrefix(k.Accusation("a", "b/c"), k.Accusation("a", "b")+"/"))
}

// The accusations against one member are the keys of one prefix, and no others are.
func TestAccusationsOfOneMember(t *testing.T) {
	k := testKeys(t)
	require.Equal(t, "/goverse/nodes-accused/a%2Fb:1/x%2Fy", k.Accusation("a/b:1", "x/y"))
	require.Equal(t, "/goverse/accused-silent/a%2Fb:1/x%2Fy", k.SilenceAccusation("a/b:1", "x/y"))
	names := []string{"a:1", "a:10", "a:1/b", "a:1/", "a", "a:", "%", "a:1%2Fb"}
	for _, address := range names {
		for _, of := range names {
			require.Equal(t, address == of, strings.HasPrefix(k.Accusation(of, "x"), k.AccusationsOf(address)), of)
			require.Equal(t, address == of, strings.HasPrefix(k.SilenceAccusation(of, "x"), k.SilenceAccusationsOf(address)),
				of)
		}
		require.True(t, strings.HasPrefix(k.SilenceAccusationsOf(address), k.SilenceAccusations()))
	}
}

func FuzzParse(f *testing.F) {
	f.Add("/goverse/leader/1f", "a:1", "b")
	f.Add("/goverse/nodes/%2f", "/", "%")
	f.Add("/goverse/nodes-accused/a/b/c", "..", "")
	f.Add("/goverse/nodes-silent/a/b", "a", "b")
	f.Add("/goverse/nodes-drain/a%2Fb", "a/b", "")
	f.Fuzz(func(t *testing.T, key, address, accuser string) {
		k := testKeys(t)
		p := k.Parse(key)
		switch p.Kind { // a key that is understood has only one spelling
		case KindNode:
			require.Equal(t, key, k.Node(p.Address))
		case KindAccusation:
			require.Equal(t, key, k.Accusation(p.Address, p.Accuser))
		case KindSilence:
			require.Equal(t, key, k.Silence(p.Address, p.Watcher))
		case KindDrain:
			require.Equal(t, key, k.Drain(p.Address))
		case KindReleased:
			require.Equal(t, key, k.Released(p.Address))
		case KindCandidate:
			if p.Lease != 0 {
				require.Equal(t, key, k.Candidate(p.Lease))
			}
		}
		if address != "" {
			require.Equal(t, ParsedKey{Kind: KindNode, Address: address}, k.Parse(k.Node(address)))
			require.Equal(t, ParsedKey{Kind: KindDrain, Address: address}, k.Parse(k.Drain(address)))
			if accuser != "" {
				require.Equal(t, ParsedKey{Kind: KindAccusation, Address: address, Accuser: accuser},
					k.Parse(k.Accusation(address, accuser)))
			}
		}
	})
}
