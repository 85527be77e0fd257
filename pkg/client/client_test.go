package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/await"
	"github.com/profllm/profllm/pkg/client"
	"github.com/profllm/profllm/pkg/lease"
)

// What a client prints is in its log, and its error is that of the load.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	l := client.Load{Args: []string{"a b", "$c"}, Log: filepath.Join(dir, "log"), Result: filepath.Join(dir, "result")}
	require.NoError(t, os.WriteFile(l.Result, nil, 0o644))
	words := []string{"sh", "-c", `printf '%s,' "$@"; echo bad >&2; exit 3`, "sh"}
	c := client.Command(words, client.Stop{Signal: os.Interrupt})
	require.ErrorContains(t, l.Measure(t.Context(), c), "exit status 3")
	data, err := os.ReadFile(l.Log)
	require.NoError(t, err)
	require.Equal(t, "a b,$c,bad\n", string(data))
	require.FileExists(t, l.Result, "a client that fails leaves what it has")
}

// A pipe in place of the log does not stop the measurement.
func TestLogIsNew(t *testing.T) {
	l := client.Load{Log: filepath.Join(t.TempDir(), "log")}
	require.NoError(t, syscall.Mkfifo(l.Log, 0o644))
	never := func(context.Context, []string, io.Writer) error { panic("measured") }
	require.ErrorIs(t, l.Measure(t.Context(), never), fs.ErrExist)
}

// An interrupted command gets the signal, and its result goes: it is of a part of the load.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	l := client.Load{Log: filepath.Join(dir, "log"), Result: filepath.Join(dir, "result")}
	script := fmt.Sprintf(`trap 'echo stopped; : >"%s"; exit 4' TERM
echo ready; while :; do sleep 0.01; done`, l.Result)
	c := client.Command([]string{"sh", "-c", script}, client.Stop{Signal: syscall.SIGTERM, Wait: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- l.Measure(ctx, c) }()
	await.Text(t, l.Log, "ready")
	cancel()
	require.Error(t, <-ended)
	require.NoFileExists(t, l.Result)
	data, err := os.ReadFile(l.Log)
	require.NoError(t, err)
	require.Equal(t, "ready\nstopped\n", string(data))

	none := errors.New("interrupted")
	l.Log = filepath.Join(dir, "again")
	err = l.Measure(ctx, func(context.Context, []string, io.Writer) error { return none })
	require.EqualError(t, err, "context canceled\ninterrupted", "there is nothing to remove")
}

// A client that had just ended well, or says itself why it was interrupted, gives the reason once.
func TestInterruptedAtTheEnd(t *testing.T) {
	for _, ended := range []error{nil, context.Canceled} {
		dir := t.TempDir()
		l := client.Load{Log: filepath.Join(dir, "log"), Result: filepath.Join(dir, "result")}
		ctx, cancel := context.WithCancel(t.Context())
		err := l.Measure(ctx, func(context.Context, []string, io.Writer) error {
			cancel()
			return errors.Join(os.WriteFile(l.Result, nil, 0o644), ended)
		})
		require.EqualError(t, err, "context canceled")
		require.NoFileExists(t, l.Result)
	}
}

// A result in a folder whose lease was lost may be the new owner's.
func TestLostLease(t *testing.T) {
	dir := t.TempDir()
	l := client.Load{Log: filepath.Join(dir, "log"), Result: filepath.Join(dir, "result")}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := l.Measure(ctx, func(context.Context, []string, io.Writer) error {
		cancel(fmt.Errorf("results: %w", lease.ErrLost))
		return os.WriteFile(l.Result, nil, 0o644)
	})
	require.ErrorIs(t, err, lease.ErrLost)
	require.FileExists(t, l.Result)
}
