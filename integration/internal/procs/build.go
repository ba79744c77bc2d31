//go:build unix

package procs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goverse/goverse/internal/test/race"
)

const (
	daemonPackage     = "github.com/goverse/goverse/cmd/goversed"
	controllerPackage = "github.com/goverse/goverse/examples/controller"
)

// buildProgram builds a program from this checkout into dir. It must be called within a test: go test records the
// files that a test opens, and does not use a cached result after one of them has changed.
func buildProgram(dir, program string) (string, error) {
	sources, err := goCommand("list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}", program)
	if err != nil {
		return "", err
	}
	for source := range strings.Lines(sources) {
		if _, err := os.ReadDir(strings.TrimSpace(source)); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, filepath.Base(program))
	// Without debug information the linker takes half the time. If this test detects races, the processes do
	// too.
	_, err = goCommand("build", "-ldflags=-w", "-race="+strconv.FormatBool(race.Enabled), "-o", path, program)
	return path, err
}

func goCommand(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return string(out), nil
}
