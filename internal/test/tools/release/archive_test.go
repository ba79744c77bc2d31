package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeFiles writes two files into a folder of their own, with a modification time.
func writeFiles(t *testing.T, at time.Time) []file {
	t.Helper()
	dir := t.TempDir()
	var files []file
	for _, name := range []string{"b", "a"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("text of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		files = append(files, file{name: "x/" + name, path: path, mode: 0o755})
	}
	return files
}

// The bytes of an archive do not depend on the time, the folder, the owner and the order of the files.
func TestArchivesAreReproducible(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(io.Writer, []file) error{"tar": writeTarGz, "zip": writeZip} {
		var first, second bytes.Buffer
		files := writeFiles(t, time.Now().Add(-time.Hour))
		if err := write(&first, files); err != nil {
			t.Fatal(err)
		}
		files = writeFiles(t, time.Now())
		files[0], files[1] = files[1], files[0]
		if err := write(&second, files); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s: the same files give other bytes", name)
		}
		files[0].mode = 0o644
		second.Reset()
		if err := write(&second, files); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s: another mode gives the same bytes: the test sees no difference", name)
		}
	}
}

// An archive can be read, has its files in order, and names no owner and no time of the build.
func TestArchivesAreRead(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := writeTarGz(&text, writeFiles(t, time.Now())); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&text)
	if err != nil {
		t.Fatal(err)
	}
	archive, names := tar.NewReader(z), ""
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names += h.Name + " "
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(epoch) || h.Mode != 0o755 {
			t.Errorf("%+v", h)
		}
	}
	if names != "x/a x/b " {
		t.Errorf("the files are %s", names)
	}
	text.Reset()
	if err := writeZip(&text, writeFiles(t, time.Now())); err != nil {
		t.Fatal(err)
	}
	zipped, err := zip.NewReader(bytes.NewReader(text.Bytes()), int64(text.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if len(zipped.File) != 2 || zipped.File[0].Name != "x/a" || zipped.File[0].Mode() != 0o755 {
		t.Errorf("%+v", zipped.File[0])
	}
}

// SHA256SUMS has the form that sha256sum -c reads.
func TestSums(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"b.zip", "a.tar.gz"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	want := fmt.Sprintf("%x  a.tar.gz\n%x  b.zip\n", sha256.Sum256([]byte("a.tar.gz")), sha256.Sum256([]byte("b.zip")))
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
