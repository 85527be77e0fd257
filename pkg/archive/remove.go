package archive

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// What Remove calls a directory that it has moved aside: aside until it was
// compared, and then gone.
const (
	aside = "aside"
	gone  = "gone"
)

// Remove removes a directory whose content is exactly what Write returned, by name, size,
// time, mode and link. It first moves the directory aside, so that files created later
// under its name are not lost. If anything differs, the directory stays, with an error.
// Recover finishes a Remove that was killed.
func Remove(dir string, entries []Entry) error {
	prefix, err := movedPrefix(dir)
	if err != nil {
		return err
	}
	name := func(what string) string {
		return filepath.Join(filepath.Dir(dir), fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), what))
	}
	if _, err := os.Lstat(name(aside)); err == nil {
		return fmt.Errorf("%s: %w", name(aside), fs.ErrExist)
	}
	if err := os.Rename(dir, name(aside)); err != nil {
		return err
	}
	now, err := survey(name(aside))
	if err == nil {
		err = same(untitled(entries), untitled(now), "the directory")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s is kept, because it changed: %w", dir, err), os.Rename(name(aside), dir))
	}
	if err := os.Rename(name(aside), name(gone)); err != nil {
		return err
	}
	return os.RemoveAll(name(gone))
}

func movedPrefix(dir string) (string, error) {
	host, err := os.Hostname()
	return "." + filepath.Base(dir) + partial + host + ",", err
}

// Recover finishes a Remove of the directory that was killed on this host: a directory
// that was not compared yet gets its name back, and a compared one is removed.
func Recover(dir string) error {
	prefix, err := movedPrefix(dir)
	if err != nil {
		return err
	}
	list, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		rest, ours := strings.CutPrefix(e.Name(), prefix)
		if !ours || !abandoned(rest) {
			continue
		}
		left := filepath.Join(filepath.Dir(dir), e.Name())
		switch {
		case strings.HasSuffix(rest, "-"+gone):
			errs = append(errs, os.RemoveAll(left))
		case !strings.HasSuffix(rest, "-"+aside):
		default:
			if err := free(dir); err != nil {
				errs = append(errs, fmt.Errorf("%s was moved aside, and its old name is taken: %w", left, err))
				continue
			}
			errs = append(errs, os.Rename(left, dir))
		}
	}
	return errors.Join(errs...)
}

// untitled are entries without the name of their directory, and without digests.
func untitled(entries []Entry) []Entry {
	out := make([]Entry, len(entries))
	for i, e := range entries {
		_, e.Name, _ = strings.Cut(e.Name, "/")
		e.SHA256 = [sha256.Size]byte{}
		out[i] = e
	}
	return out
}
