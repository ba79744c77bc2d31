//go:build linux

package deploy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
)

// buildImage is off by default, because it compiles everything again, in the image's way, which takes minutes
// the first time.
var buildImage = flag.Bool("image", false, "run the build steps of the Dockerfile, and the image's files in a root of "+
	"their own; needs Linux and root")

const dockerfile = "docker/Dockerfile"

// stages returns the Dockerfile's stages by name, as parsed by BuildKit. The file must pass BuildKit's linter.
func stages(t *testing.T) map[string]instructions.Stage {
	t.Helper()
	file, err := parser.Parse(strings.NewReader(read(t, dockerfile)))
	require.NoError(t, err)
	require.Empty(t, file.Warnings)
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, where []parser.Range) {
		t.Errorf("%s:%v: %s: %s", dockerfile, where, rule, message)
	}})
	all, _, err := instructions.Parse(file.AST, lint)
	require.NoError(t, err)
	stages := map[string]instructions.Stage{}
	for _, s := range all {
		stages[s.Name] = s
	}
	return stages
}

// commands returns the instructions of one kind in the stages.
func commands[C any](stages ...instructions.Stage) (all []C) {
	for _, s := range stages {
		for _, c := range s.Commands {
			if found, ok := c.(C); ok {
				all = append(all, found)
			}
		}
	}
	return all
}

func TestDockerfile(t *testing.T) {
	all := stages(t)
	require.Equal(t, "scratch", all["base"].BaseName)
	require.Equal(t, "base", all["goversed"].BaseName)
	require.Equal(t, "base", all["program"].BaseName)
	toolchain := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindStringSubmatch(read(t, "..", "go.mod"))
	require.Equal(t, "golang:"+toolchain[1], all["build"].BaseName, "the image is built by the toolchain of go.mod")

	users := commands[*instructions.UserCommand](all["base"])
	require.Len(t, users, 1)
	require.Regexp(t, `^[1-9][0-9]*:[1-9][0-9]*$`, users[0].User, "a number that is not root")
	for _, env := range commands[*instructions.EnvCommand](all["base"]) {
		for _, e := range env.Env {
			require.True(t, isVariable(t, e.Key), e.Key)
		}
	}
	for _, name := range []string{"goversed", "program"} {
		require.Empty(t, commands[*instructions.RunCommand](all["base"], all[name]), "there is no shell in the image")
		entry := commands[*instructions.EntrypointCommand](all[name])
		require.Len(t, entry, 1)
		require.False(t, entry[0].PrependShell, "SIGTERM goes to the program itself")
	}
	health := commands[*instructions.HealthCheckCommand](all["goversed"])
	require.Len(t, health, 1)
	require.Equal(t, []string{"CMD", "/goversed", "probe", "--self"}, health[0].Health.Test)
}

// image creates the files of an image with the Dockerfile's own steps. It runs the stage "build" in a copy of
// the tree and carries out the copies of the other stages.
func image(t *testing.T, names ...string) (root string) {
	t.Helper()
	all, src, root := stages(t), filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.MkdirAll(src, 0o755))
	run := func(script string, env ...string) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir, cmd.Env = src, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", script, out)
	}
	tree, err := filepath.Abs("..")
	require.NoError(t, err)
	run(fmt.Sprintf("cd %q && git ls-files -z | xargs -0 cp --parents -t %q", tree, src))

	var env []string
	for _, arg := range commands[*instructions.ArgCommand](all["build"]) {
		for _, a := range arg.Args {
			env = append(env, a.Key+"="+a.ValueString())
		}
	}
	for _, e := range commands[*instructions.EnvCommand](all["build"]) {
		for _, e := range e.Env {
			env = append(env, e.String())
		}
	}
	for _, step := range commands[*instructions.RunCommand](all["build"]) {
		run(strings.Join(step.CmdLine, " "), env...)
	}
	workdir := commands[*instructions.WorkdirCommand](all["build"])[0].Path
	for _, name := range names {
		for _, c := range commands[*instructions.CopyCommand](all[name]) {
			require.Equal(t, "build", c.From)
			from := c.SourcePaths[0]
			if path, ours := strings.CutPrefix(from, workdir); ours {
				from = src + path
			}
			to := filepath.Join(root, c.DestPath)
			require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
			run(fmt.Sprintf("cp -a %q %q", from, to))
			if c.Chown != "" {
				run(fmt.Sprintf("chown -R %s %q", c.Chown, to))
			}
		}
	}
	return root
}

// The image contains all files that the program needs. Its files are the root of a mount namespace, read-only
// except for a volume. The program runs there as the image's user, in a network namespace of its own, so that
// it uses the image's ports. It becomes ready with an etcd of its own, its health check succeeds, and it hands
// over on SIGTERM.
func TestImageRuns(t *testing.T) {
	if !*buildImage {
		t.Skip("without -image")
	}
	require.Zero(t, os.Geteuid(), "-image needs root")
	all := stages(t)
	root := image(t, "base", "goversed")
	require.NoError(t, os.Chmod(root, 0o755))

	uid, gid, _ := strings.Cut(commands[*instructions.UserCommand](all["base"])[0].User, ":")
	workdir := commands[*instructions.WorkdirCommand](all["base"])[0].Path
	env := []string{"PATH=" + os.Getenv("PATH"), "GOVERSE_ADVERTISE=127.0.0.1:47001"}
	for _, e := range commands[*instructions.EnvCommand](all["base"]) {
		for _, e := range e.Env {
			env = append(env, e.String())
		}
	}
	setup := fmt.Sprintf(`set -e
		ip link set lo up
		mount --bind %[1]q %[1]q
		mount -t tmpfs -o size=256m,mode=0700,uid=%[3]s,gid=%[4]s volume %[1]q%[2]s
		mount -o remount,ro,bind %[1]q
		exec unshare --root=%[1]q --wd=%[2]s --setgid %[4]s --setuid %[3]s "$@"`, root, workdir, uid, gid)
	args := []string{"--mount", "--net", "/bin/sh", "-c", setup, "sh"}
	args = append(args, commands[*instructions.EntrypointCommand](all["goversed"])[0].CmdLine...)
	args = append(args, commands[*instructions.CmdCommand](all["goversed"])[0].CmdLine...)
	program := exec.Command("unshare", args...)
	program.Env = env
	var log bytes.Buffer
	program.Stdout, program.Stderr = &log, &log
	require.NoError(t, program.Start())
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	t.Cleanup(func() {
		_ = program.Process.Kill() // it has already ended unless the test failed
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	})

	inside := func(command ...string) error {
		enter := []string{"-t", fmt.Sprint(program.Process.Pid), "--net", "--mount", "--root", "--wd", "-S", uid, "-G", gid}
		cmd := exec.Command("nsenter", append(enter, command...)...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	health := commands[*instructions.HealthCheckCommand](all["goversed"])[0].Health.Test[1:]
	require.Eventually(t, func() bool { return inside(health...) == nil }, time.Minute, 100*time.Millisecond)
	ready := append(slices.Clone(health), "/readyz")
	require.Eventually(t, func() bool { return inside(ready...) == nil }, time.Minute, 100*time.Millisecond)
	require.NoError(t, inside("/goversed", "leader"))
	require.Error(t, inside("/goversed", "probe", "http://127.0.0.1:48001/no-such-page"), "the check can fail")
	require.Error(t, inside("/bin/sh"), "there is nothing but the image's files")

	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", program.Process.Pid))
	require.NoError(t, err)
	require.Contains(t, string(state), "\nUid:\t"+strings.Repeat(uid+"\t", 3)+uid+"\n")
	require.Regexp(t, `(?m)^CapEff:\s0+$`, string(state))

	require.NoError(t, program.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		ended <- err
		require.NoError(t, err, "a graceful stop")
	case <-time.After(time.Minute):
		require.FailNow(t, "it did not stop")
	}
}
