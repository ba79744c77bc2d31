package etcdtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

const serverPackage = "github.com/goverse/goverse/internal/test/etcdtest/etcdserver"

// builtServer builds the program at the first call. On a machine whose build cache is empty, that takes minutes.
var builtServer = sync.OnceValues(buildServer)

// buildServer builds the etcdserver program unless it is up to date, and returns its path. The program is in the
// user's cache folder, one for each checkout, and the test processes of one go test share it.
//
// Asking go build whether the program is up to date takes a second of processor time. So buildServer records the
// size and the time of each source file, and asks only if one of them differs.
func buildServer() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no home directory
	}
	source, err := sourceDir()
	if err != nil {
		return "", err
	}
	flags := os.Getenv("GOFLAGS")
	id := sha256.Sum256([]byte(strings.Join([]string{source, runtime.Version(), flags}, "\n")))
	dir := filepath.Join(cache, "goverse-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	program := filepath.Join(dir, fmt.Sprintf("etcdserver-%x", id[:6]))
	record := program + ".sources"
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if upToDate(program, record) {
		return program, nil
	}
	unlock, err := lockFile(program + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if upToDate(program, record) { // another test process has built it
		return program, nil
	}
	if err := removeOld(dir); err != nil {
		return "", err
	}
	sources, err := listSources(source)
	if err != nil {
		return "", err
	}
	if _, err := runGo(source, "build", "-ldflags=-s -w", "-o", program, serverPackage); err != nil {
		return "", err
	}
	return program, writeFile(record, sources)
}

// keep limits the age of programs: those of other checkouts may never be needed again.
const keep = 14 * 24 * time.Hour

// removeOld removes the programs and records that were built long ago. A checkout that still needs one builds it again.
func removeOld(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".lock") {
			continue // empty, and perhaps held
		}
		if info, err := f.Info(); err == nil && time.Since(info.ModTime()) > keep {
			_ = os.Remove(filepath.Join(dir, f.Name())) // another test process may have removed it
		}
	}
	return nil
}

// writeFile replaces the file, so that readers see either the old or the new text.
func writeFile(name, text string) error {
	if err := os.WriteFile(name+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// sourceDir returns the folder of this package's source: that at which it was compiled, or with -trimpath the
// present one, because go test runs a test in a folder of the module.
func sourceDir() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	if dir := filepath.Dir(file); filepath.IsAbs(dir) {
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
	}
	return os.Getwd()
}

// listSources returns a line for each file and folder of this module that is part of the program.
func listSources(dir string) (string, error) {
	const format = `{{with .Module}}{{if .Main}}{{.GoMod}}
{{$.Dir}}{{range $.GoFiles}}
{{$.Dir}}/{{.}}{{end}}{{end}}{{end}}`
	out, err := runGo(dir, "list", "-deps", "-f", format, serverPackage)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for name := range strings.Lines(out) {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		line, err := describeFile(name)
		if err != nil {
			return "", err
		}
		lines.WriteString(line + "\n")
	}
	return lines.String(), nil
}

// describeFile returns a line that changes with the file.
func describeFile(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %d %s", info.Size(), info.ModTime().UnixNano(), name), nil
}

// upToDate reports whether the program exists and no file in its record has changed.
func upToDate(program, record string) bool {
	if _, err := os.Stat(program); err != nil {
		return false
	}
	text, err := os.ReadFile(record)
	if err != nil || len(text) == 0 {
		return false
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.SplitN(line, " ", 3)
		if len(fields) != 3 {
			return false
		}
		if now, err := describeFile(fields[2]); err != nil || now != line {
			return false
		}
	}
	return true
}

// runGo runs the go command in dir and returns its output.
func runGo(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w\n%s", err, failed.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
