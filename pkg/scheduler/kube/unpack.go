package kube

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/run"
)

const (
	// mostUnpacked bounds what an archive of results holds, mostFile one file of it, and mostFiles how
	// many there are. Readers of results take a file into memory, some of them twice.
	mostUnpacked = 512 << 20
	mostFile     = 256 << 20
	mostFiles    = 20_000
	mostPath     = 512
)

// unpack reads a gzipped tar into a folder, which exists and is empty. Only folders and regular files
// are taken, below raw/ and logs/ of the run or of one of its loads; anything else is an error.
// It returns the files, by their slash-separated names.
func unpack(r io.Reader, into *os.Root, loads []string) (files []string, err error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	left := int64(mostUnpacked)
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		name, err := allowed(h.Name, loads)
		switch {
		case err != nil:
			return nil, err
		case len(files) == mostFiles:
			return nil, fmt.Errorf("it holds more than %d files", mostFiles)
		case h.Typeflag == tar.TypeDir:
			if name != "." {
				err = into.MkdirAll(name, 0o755)
			}
		case h.Typeflag == tar.TypeReg:
			files = append(files, name)
			err = unpackFile(t, h, into, name, &left)
		default:
			err = fmt.Errorf("%s is neither a folder nor a regular file", name)
		}
		if err != nil {
			return nil, err
		}
	}
}

// allowed is the clean form of a name of the archive.
func allowed(name string, loads []string) (string, error) {
	clean := path.Clean(name)
	if clean == "." {
		return clean, nil
	}
	if !filepath.IsLocal(clean) || len(clean) > mostPath || strings.ContainsAny(clean, "\x00\\") {
		return "", fmt.Errorf("%q leads out of the run directory", name)
	}
	for _, load := range append([]string{""}, loads...) {
		rest, ok := strings.CutPrefix(clean, load)
		top, _, _ := strings.Cut(rest, "/")
		if ok && (top == run.RawDir || top == run.LogDir) {
			return clean, nil
		}
		if strings.HasPrefix(load, clean+"/") { // a folder above
			return clean, nil
		}
	}
	return "", fmt.Errorf("%q is not below %s/ or %s/", name, run.RawDir, run.LogDir)
}

func unpackFile(t *tar.Reader, h *tar.Header, into *os.Root, name string, left *int64) error {
	if h.Size < 0 || h.Size > mostFile {
		return fmt.Errorf("%s has %d bytes, and at most %d MiB are taken", name, h.Size, mostFile>>20)
	}
	if *left -= h.Size; *left < 0 {
		return fmt.Errorf("it holds more than %d MiB", mostUnpacked>>20)
	}
	if err := into.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := into.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, t)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return into.Chtimes(name, h.ModTime, h.ModTime)
}

// publish moves files from a folder below the run directory into it, each whole.
func publish(root *os.Root, temp string, files []string) error {
	for _, name := range files {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := root.Rename(path.Join(temp, name), name); err != nil {
			return err
		}
	}
	return nil
}
