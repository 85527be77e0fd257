package upload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/archive"
	"github.com/profllm/profllm/pkg/regular"
)

// Errors of this machine are told from those of what was sent.
func TestOfMachine(t *testing.T) {
	at := func(err error) error { return fmt.Errorf("x: %w", &fs.PathError{Op: "write", Path: "p", Err: err}) }
	for _, err := range []error{at(syscall.ENOSPC), at(syscall.EIO), at(syscall.EACCES), fs.ErrPermission, errors.Join(at(syscall.ENOENT), at(syscall.EDQUOT))} {
		require.True(t, ofMachine(err), "%v", err)
	}
	for _, err := range []error{nil, errNothing, at(syscall.ENAMETOOLONG), at(syscall.ENOTDIR), at(fs.ErrExist), regular.ErrKind,
		regular.ErrLarge, archive.ErrLimit, archive.ErrLeadsOut, context.Canceled} {
		require.False(t, ofMachine(err), "%v", err)
	}
}

// An error of this machine about one run of many is one of the whole: nothing is stored of it yet.
func TestFaults(t *testing.T) {
	r := &reader{}
	r.note(errors.New("a record that is none"))
	require.NoError(t, r.fault)
	r.note(fmt.Errorf("collect: %w", syscall.ENOSPC))
	r.note(errors.New("another"))
	require.ErrorIs(t, r.fault, syscall.ENOSPC)

	record, err := filepath.Abs("../result/testdata/releases/2026-11-22/release/aggregated/0/result.json")
	require.NoError(t, err)
	for name, from := range map[string]string{"a record": record, "no folder": filepath.Join(t.TempDir(), "gone")} {
		r := &reader{work: filepath.Join(t.TempDir(), "gone"), from: from, name: "x"}
		_, err := r.read()
		require.ErrorIs(t, err, os.ErrNotExist, name)
		require.Equal(t, err, r.fault, name)
	}
}
