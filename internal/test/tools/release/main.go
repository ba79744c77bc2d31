// Release builds the archives of a release, for `make release`:
//
//	go run -C internal/test/tools ./release -out dist
//
// For each system, the archive has goversed, the licences and the README. SHA256SUMS has the checksum of each file. The
// same commit and the same Go release give the same bytes on any machine: paths, times, owners and the order of the
// files are fixed. The version is the one that the Go tool records in the program: that of the tag, or of the commit.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goverse/goverse/internal/test/tools/linked"
)

// sbomTool writes the software bill of materials of a program.
const sbomTool = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

// texts lists the files that each archive has beside the program.
var texts = []string{"CHANGELOG.md", "LICENSE", "README.md"}

type options struct {
	root, out string
	systems   []string
	dirty     bool
	licences  string // of what goversed links
	parallel  string
}

func main() {
	var o options
	out := flag.String("out", "dist", "folder for the archives, below the root of the repository; it is replaced")
	list := flag.String("systems", strings.Join(linked.Systems, ","), "the systems, as OS/ARCH, separated by commas")
	flag.BoolVar(&o.dirty, "dirty", false, "build although there are uncommitted changes, for a test")
	flag.StringVar(&o.parallel, "p", "", "programs that the Go tool may run at a time; empty means its default")
	flag.Parse()
	o.systems = strings.Split(*list, ",")
	if err := run(o, *out); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(o options, out string) error {
	root, err := linked.RootDir()
	if err != nil {
		return err
	}
	o.root, o.out = root, filepath.Join(root, out)
	changes := exec.Command("git", "status", "--porcelain")
	changes.Dir = o.root
	changed, err := output(changes)
	if err != nil {
		return err
	}
	if changed != "" && !o.dirty {
		return errors.New("there are uncommitted changes: release a fresh clone of the tag, or give -dirty for a test")
	}
	modules, err := linked.Modules()
	if err != nil {
		return err
	}
	o.licences = linked.Texts(modules)
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, system := range o.systems {
		if err := o.buildSystem(system); err != nil {
			return fmt.Errorf("%s: %w", system, err)
		}
	}
	return writeSums(o.out)
}

// buildSystem builds the archive of one system, and its bill of materials.
func (o options) buildSystem(system string) error {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return errors.New("give a system as OS/ARCH")
	}
	scratch, err := os.MkdirTemp("", "goverse-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) // nothing can be done about it
	program := filepath.Join(scratch, "goversed")
	if goos == "windows" {
		program += ".exe"
	}
	args := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", program}
	if o.parallel != "" {
		args = append(args, "-p", o.parallel)
	}
	build := exec.Command("go", append(args, "./cmd/goversed")...)
	build.Dir = o.root
	build.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=",
		"GOAMD64=v1", "GOARM64=v8.0")
	if _, err := output(build); err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("goversed_%s_%s_%s", strings.TrimPrefix(info.Main.Version, "v"), goos, goarch)
	licences := filepath.Join(scratch, "THIRD_PARTY_LICENCES.txt")
	if err := os.WriteFile(licences, []byte(o.licences), 0o600); err != nil {
		return err
	}
	files := []file{{name: name + "/" + filepath.Base(program), path: program, mode: 0o755},
		{name: name + "/" + filepath.Base(licences), path: licences, mode: 0o644}}
	for _, text := range texts {
		files = append(files, file{name: name + "/" + filepath.Base(text), path: filepath.Join(o.root, text), mode: 0o644})
	}
	var archive bytes.Buffer
	write, ending := writeTarGz, ".tar.gz"
	if goos == "windows" {
		write, ending = writeZip, ".zip"
	}
	if err := write(&archive, files); err != nil {
		return err
	}
	path := filepath.Join(o.out, name+ending)
	if err := os.WriteFile(path, archive.Bytes(), 0o644); err != nil { //nolint:gosec // it is public
		return err
	}
	fmt.Println(filepath.Base(path))
	return writeBill(program, filepath.Join(o.out, name+".cdx.json"), info.Main.Version)
}

// writeBill writes the software bill of materials of a program, as CycloneDX reads it from the program.
func writeBill(program, path, version string) error {
	bill := exec.Command("go", "run", sbomTool, "bin", "-json", "-noserial", "-notimestamp", "-std", "-version", version,
		"-output", path, program)
	bill.Env = append(os.Environ(), "GOFLAGS=")
	_, err := output(bill)
	return err
}

// writeSums writes the checksums of all files of a folder into SHA256SUMS, as sha256sum does.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines []string
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(text), entry.Name()))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644) //nolint:gosec // public
}

// output runs a command and returns its output, or an error with its complaints.
func output(cmd *exec.Cmd) (string, error) {
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, complaints.String())
	}
	return string(out), nil
}
