package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"io"
	"os"
	"slices"
	"time"
)

// epoch is the time of every file in an archive. It is the earliest time that zip can record.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// file is a file of an archive.
type file struct {
	name string // in the archive
	path string // on the disk
	mode int64
}

func sortFiles(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// writeTarGz writes files as a compressed tar archive that depends on their names, modes and contents alone.
func writeTarGz(to io.Writer, files []file) error {
	z, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range sortFiles(files) {
		text, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(text)), ModTime: epoch,
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := t.Write(text); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// writeZip writes files as a zip archive that depends on their names, modes and contents alone.
func writeZip(to io.Writer, files []file) error {
	z := zip.NewWriter(to)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, f := range sortFiles(files) {
		text, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(os.FileMode(f.mode)) //nolint:gosec // it is a mode
		w, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return z.Close()
}
