package run

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// WriteComputed replaces a file that can be computed again, as WriteFile does, but
// does not wait for the disk: with thousands of records that would be most of the
// time. No reader ever sees half of the file. If the machine loses power at once, some
// file systems may keep it empty; every reader refuses an empty file, and the next
// collection finds that it is not the record and writes it again.
func WriteComputed(path string, data []byte) error {
	temp, err := writeTemp(path, data, modeOf(path, 0o644), unsynced)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// Clock is the time by the clock of the file system that a directory lies on, which
// over a network is the server's. It makes a file for that and removes it.
func Clock(dir string) (time.Time, error) {
	temp, err := writeTemp(filepath.Join(dir, "clock"), nil, 0o600, unsynced)
	if err != nil {
		return time.Time{}, err
	}
	defer os.Remove(temp)
	st, err := os.Stat(temp)
	if err != nil {
		return time.Time{}, err
	}
	return st.ModTime(), nil
}
