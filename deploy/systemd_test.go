package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/stretchr/testify/require"
)

// options returns the settings of a unit; the values of repeated settings are joined by a space.
func options(t *testing.T, text string) map[string]string {
	t.Helper()
	all, err := unit.DeserializeOptions(strings.NewReader(text))
	require.NoError(t, err)
	found := map[string]string{}
	for _, o := range all {
		found[o.Section+"."+o.Name] = strings.TrimSpace(found[o.Section+"."+o.Name] + " " + o.Value)
	}
	return found
}

func TestSystemdUnit(t *testing.T) {
	service := options(t, read(t, "systemd", "goversed.service"))
	stop, err := time.ParseDuration(service["Service.TimeoutStopSec"])
	require.NoError(t, err)
	require.Greater(t, stop, 15*time.Second, "--stop-timeout")
	require.Equal(t, "yes", service["Service.DynamicUser"])
	require.NotContains(t, service, "Service.WatchdogSec", "goversed does not notify systemd")

	for line := range strings.Lines(read(t, "systemd", "goversed.env")) {
		name, _, is := strings.Cut(strings.TrimPrefix(line, "#"), "=")
		if is && strings.HasPrefix(name, "GOVERSE_") {
			require.True(t, isVariable(t, name), name)
		}
	}
	dropIns, err := filepath.Glob("systemd/goversed.service.d/*.conf")
	require.NoError(t, err)
	require.Len(t, dropIns, 2)
	for _, file := range dropIns {
		o := options(t, read(t, file))
		id, path, _ := strings.Cut(o["Service.LoadCredential"], ":")
		require.True(t, strings.HasPrefix(path, "/etc/goverse/"), path)
		require.True(t, strings.HasSuffix(o["Service.Environment"], "_FILE=%d/"+id), "the variable names the credential")
	}
}

// The unit of a command: its stop leaves time for the release, and systemd signals goversed alone.
func TestSystemdExecUnit(t *testing.T) {
	service := options(t, read(t, "systemd", "goversed-exec@.service"))
	words := strings.Fields(service["Service.ExecStart"])
	require.Equal(t, []string{"/usr/local/bin/goversed", "exec", "--election", "%i", "--grace"}, words[:5])
	require.Equal(t, []string{"--", "$COMMAND"}, words[6:])
	patience, err := time.ParseDuration(words[5])
	require.NoError(t, err)
	stop, err := time.ParseDuration(service["Service.TimeoutStopSec"])
	require.NoError(t, err)
	require.Greater(t, stop, patience+10*time.Second)
	require.Equal(t, "mixed", service["Service.KillMode"])
	require.Equal(t, "always", service["Service.Restart"])
	require.Equal(t, "2 126 127", service["Service.RestartPreventExitStatus"])
	require.Equal(t, "/etc/goverse/exec/%i.env", service["Service.EnvironmentFile"])
	command := false
	for line := range strings.Lines(read(t, "systemd", "exec", "outbox.env")) {
		name, _, is := strings.Cut(strings.TrimPrefix(line, "#"), "=")
		command = command || name == "COMMAND"
		if is && strings.HasPrefix(name, "GOVERSE_") {
			require.True(t, isVariable(t, name), name)
		}
	}
	require.True(t, command)
}

// systemd itself accepts the unit and its drop-ins, and rates the service's access to the host as low.
func TestSystemdVerifies(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if strings.Contains(os.Getenv("GOVERSE_REQUIRE"), "systemd") {
			t.Fatal(err)
		}
		t.Skip("there is no systemd here")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	analyze := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("systemd-analyze", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	program, err := os.Executable() // the check needs an existing program
	require.NoError(t, err)
	text := strings.Replace(read(t, "systemd", "goversed.service"), "/usr/local/bin/goversed", program, 1)
	write("goversed.service", text)
	require.Empty(t, analyze("verify", "./goversed.service"))
	for _, file := range []string{"etcd-password.conf", "admin-token.conf"} {
		write("goversed.service.d/"+file, read(t, "systemd", "goversed.service.d", file))
	}
	require.Empty(t, analyze("verify", "./goversed.service"))
	security := analyze("security", "--offline=true", "--no-pager", "--threshold=20", "./goversed.service")
	require.Contains(t, security, "Overall exposure level", security)
	require.NotContains(t, security, "exit status", security)

	exec := strings.Replace(read(t, "systemd", "goversed-exec@.service"), "/usr/local/bin/goversed", program, 1)
	write("goversed-exec@outbox.service", exec)
	require.Empty(t, analyze("verify", "./goversed-exec@outbox.service"))
	write("goversed-exec@outbox.service", strings.Replace(exec, "KillMode=mixed", "KillMode=mixing", 1))
	require.NotEmpty(t, analyze("verify", "./goversed-exec@outbox.service"), "it sees what is wrong")

	write("goversed.service", strings.Replace(text, "ProtectSystem=strict", "ProtectSystem=strictly", 1))
	require.NotEmpty(t, analyze("verify", "./goversed.service"), "it sees what is wrong")
	write("goversed.service", strings.Replace(text, "CapabilityBoundingSet=\n", "", 1))
	require.Contains(t, analyze("security", "--offline=true", "--no-pager", "--threshold=20", "./goversed.service"),
		"exit status")
}
