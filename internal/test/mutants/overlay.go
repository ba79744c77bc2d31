package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// modulePath is the module that the mutants edit.
const modulePath = "github.com/goverse/goverse"

// ModuleRoot returns the root of the module that contains the working directory.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("the working directory is in no module")
		}
		dir = up
	}
}

// WriteOverlay writes the edited source files into dir, and returns the file for go build -overlay. No mutant is
// active unless GOVERSE_MUTANT names it. An edit that does not fit the source is an error.
func WriteOverlay(root, dir string, mutants []Mutant) (string, error) {
	if err := checkMutants(mutants); err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	add := func(path string, src []byte) error {
		copied := filepath.Join(dir, strconv.Itoa(len(overlay.Replace))+".go")
		overlay.Replace[path] = copied
		return os.WriteFile(copied, src, 0o600)
	}
	for _, file := range editedFiles(mutants) {
		path := filepath.Join(root, file)
		src, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("mutants change a file that is not there: %w", err)
		}
		woven, err := weaveMutants(modulePath, file, path, src, mutants)
		if err != nil {
			return "", err
		}
		if err := add(path, woven); err != nil {
			return "", err
		}
	}
	if err := add(filepath.Join(root, switchPath, "mutant.go"), switchCode(mutants)); err != nil {
		return "", err
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// editedFiles returns the files that the mutants edit.
func editedFiles(mutants []Mutant) (names []string) {
	for _, m := range mutants {
		for _, e := range m.Edits {
			names = append(names, e.File)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
