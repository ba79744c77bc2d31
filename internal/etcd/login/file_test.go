package login

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// The password is read again each time. A file that cannot be used leaves the former password in use, and is
// reported once.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "password")
	_, err := OpenPasswordFile(name)
	require.ErrorContains(t, err, "name a file that this user may read")
	write := func(text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	write("\nlater")
	_, err = OpenPasswordFile(name)
	require.ErrorContains(t, err, "begins with an empty line")
	write("first\r\nsecond")
	f, err := OpenPasswordFile(name)
	require.NoError(t, err)
	var log logtest.Buffer
	f.SetLogger(log.Logger())
	reads := func(want string) {
		t.Helper()
		password, err := f.Password()
		require.NoError(t, err)
		require.Equal(t, want, password)
	}
	reads("first")
	require.Empty(t, log.String())
	write("") // it is being written
	reads("first")
	reads("first")
	require.Equal(t, 1, log.Count("\n"), log.String())
	require.Contains(t, log.String(), "the former password stays in use")
	write("new")
	reads("new")
	reads("new")
	require.Equal(t, 2, log.Count("\n"), log.String())
	require.NoError(t, os.Remove(name))
	reads("new")
	require.Equal(t, 3, log.Count("\n"), log.String())
	require.NotContains(t, log.String(), "first")
	// Kubernetes replaces a link to a new directory in this way.
	next := filepath.Join(t.TempDir(), "next")
	require.NoError(t, os.WriteFile(next, []byte("linked"), 0o600))
	require.NoError(t, os.Symlink(next, name))
	reads("linked")
}

// A password that etcd refuses may have been replaced meanwhile: credentials are asked for once more, and not
// again.
func TestARefusedPasswordIsAskedForOnceMore(t *testing.T) {
	server := etcdtest.Start(t)
	etcdtest.EnableAuth(t, etcdtest.Dial(t, server.Endpoint()), "secret")
	var answers []string
	asked := 0
	client := logInClient{endpoints: func() []string { return []string{server.Endpoint()} },
		anonymous: clientv3.Config{Logger: zap.NewNop()}, credentials: func() (string, string, error) {
			asked++
			return "root", answers[min(asked, len(answers))-1], nil
		}}
	for _, c := range []struct {
		answers []string
		asked   int
		fails   bool
	}{
		{[]string{"secret"}, 1, false},
		{[]string{"old", "secret"}, 2, false},
		{[]string{"old", "old"}, 2, true},
		{[]string{"old", "older", "secret"}, 2, true},
	} {
		answers, asked = c.answers, 0
		_, err := client.logIn(etcdtest.Context(t), "", "")
		require.Equal(t, c.fails, err != nil, "%v: %v", c.answers, err)
		require.Equal(t, c.asked, asked, c.answers)
	}
}
