// Package linked finds the modules that goversed links, and their licences.
package linked

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// Systems lists the systems for which goversed is released, as OS/ARCH.
var Systems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

// Root is the path of the root module.
const Root = "github.com/goverse/goverse"

// Module is a module that goversed links.
type Module struct {
	Path, Version string
	// Licences holds the SPDX identifiers of its licences, in order.
	Licences []string
	// Texts holds the texts of its licence files and notices.
	Texts []string

	dir string
}

// leastCoverage is the part of a licence file, in percent, that must be the text of a known licence.
const leastCoverage = 75

// permissive lists the licences that may be linked.
var permissive = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// ErrLicence is matched by the error of a module that may not be linked.
var ErrLicence = errors.New("a licence that may not be linked")

// RootDir returns the folder of the root module.
func RootDir() (string, error) {
	out, err := run("", nil, "list", "-m", "-f", "{{.Dir}}", Root)
	return strings.TrimSpace(string(out)), err
}

// Modules returns the modules that goversed links on any of the systems, by path.
func Modules() ([]Module, error) {
	root, err := RootDir()
	if err != nil {
		return nil, err
	}
	found := map[string]*Module{}
	for _, system := range Systems {
		goos, goarch, _ := strings.Cut(system, "/")
		out, err := run(root, []string{"GOOS=" + goos, "GOARCH=" + goarch, "CGO_ENABLED=0"}, "list", "-deps",
			"-json=Module", "./cmd/goversed")
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var pkg struct {
				Module *struct{ Path, Version, Dir string }
			}
			err := d.Decode(&pkg)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if m := pkg.Module; m != nil && m.Path != Root {
				found[m.Path] = &Module{Path: m.Path, Version: m.Version, dir: m.Dir}
			}
		}
	}
	var all []Module
	for _, m := range found {
		if err := m.read(); err != nil {
			return nil, err
		}
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b Module) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

// licenceFile matches the names of files with a licence, and noticeFile those that must be passed on beside it.
var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([.-].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^notice(\..*)?$`)
)

// read reads the licences and notices in a module's folder.
func (m *Module) read() error {
	names, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	identified := map[string]bool{}
	for _, entry := range names {
		licence := licenceFile.MatchString(entry.Name())
		if entry.IsDir() || !licence && !noticeFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.dir, entry.Name()))
		if err != nil {
			return err
		}
		m.Texts = append(m.Texts, string(text))
		if !licence {
			continue
		}
		ids, err := identify(text)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", m.Path, entry.Name(), err)
		}
		for _, id := range ids {
			identified[id] = true
		}
	}
	if len(identified) == 0 {
		return fmt.Errorf("%s: %w: it has no licence file", m.Path, ErrLicence)
	}
	m.Licences = slices.Sorted(maps.Keys(identified))
	return nil
}

// identify returns the licences of a text. The error matches ErrLicence if one of them is not known or not permissive.
func identify(text []byte) ([]string, error) {
	coverage := licensecheck.Scan(text)
	if coverage.Percent < leastCoverage {
		return nil, fmt.Errorf("%w: %.0f %% of the text is a known licence; read it", ErrLicence, coverage.Percent)
	}
	var ids []string
	for _, match := range coverage.Match {
		if match.IsURL {
			continue
		}
		if !slices.Contains(permissive, match.ID) {
			return nil, fmt.Errorf("%w: %s", ErrLicence, match.ID)
		}
		ids = append(ids, match.ID)
	}
	return ids, nil
}

// run runs the go command in a folder, and returns its output.
func run(dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return out, nil
}
