package run

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/regular"
)

// WriteJSON replaces a file as a whole: temp, fsync, rename.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return WriteFile(path, append(data, '\n'), 0o644)
}

// WriteFile is durable.WriteFile, which replaces a file as a whole, where CheckDir allows it.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	if err := CheckDir(filepath.Dir(path)); err != nil {
		return err
	}
	return durable.WriteFile(path, data, mode)
}

// WriteUnsynced is durable.WriteUnsynced, where CheckDir allows it.
func WriteUnsynced(path string, data []byte) error {
	if err := CheckDir(filepath.Dir(path)); err != nil {
		return err
	}
	return durable.WriteUnsynced(path, data)
}

// CreateJSON writes a file that must not exist yet. If several commands try, exactly one
// succeeds, and the others get fs.ErrExist. Content and name are on disk when CreateJSON
// returns. The file appears with its content, except on a file system without hard links.
func CreateJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	if err := CheckDir(filepath.Dir(path)); err != nil {
		return err
	}
	return durable.Create(path, append(data, '\n'))
}

// ReadFile reads a file that other commands replace. Over NFS, such a file may go stale
// under its reader; ReadFile then opens it again.
func ReadFile(path string) (data []byte, err error) {
	for range 3 {
		if data, err = regular.ReadFile(path); !errors.Is(err, syscall.ESTALE) {
			break
		}
	}
	return data, err
}

// ReadJSON reads a file into v. A missing file is fs.ErrNotExist.
func ReadJSON(path string, v any) error {
	data, err := ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// ReadRecord reads a file whose presence decides whether something happened. ok is false
// if the file is missing or is not a record, as a full disk may leave it. A file that
// cannot be read decides nothing and is an error.
func ReadRecord(path string, v any) (ok bool, err error) {
	err = ReadJSON(path, v)
	var unread *fs.PathError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &unread) && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	return false, nil
}
