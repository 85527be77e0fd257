package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/store"
)

// What anybody may read of an error says what is wrong, and not where the database is and who uses it.
//
// covers: API-4
func TestReason(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := l.Addr().String()
	require.NoError(t, l.Close())
	_, away := store.Open(t.Context(), "postgres://alice:secret@"+closed+"/benchmarks", store.Options{})
	_, unknown := store.Open(t.Context(), "postgres://alice:secret@no-such-host.invalid/benchmarks", store.Options{})
	_, missing := store.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), store.Options{})
	for _, c := range []struct {
		err  error
		says string
	}{
		{away, "the database cannot be reached: connection refused"},
		{unknown, "the database cannot be reached"},
		{missing, syscall.ENOENT.Error()},
		{fmt.Errorf("x: %w", &pgconn.PgError{Code: "28P01", Message: `password authentication failed for user "alice"`}), "the database reported error 28P01"},
		{&pgconn.PgError{Code: "53100", Message: "could not extend file"}, "the store has no room"},
		{fmt.Errorf("127.0.0.1: %w", context.DeadlineExceeded), "the database did not answer in time"},
		{fmt.Errorf("127.0.0.1: %w", io.ErrUnexpectedEOF), "the connection to the database broke"},
		{&net.OpError{Op: "write", Addr: l.Addr(), Err: syscall.EPIPE}, "the connection to the database broke"},
		{errors.New("user=alice"), "the store reported an error, which the server's log describes"},
	} {
		require.Error(t, c.err)
		require.Equal(t, c.says, store.Reason(c.err), "%v", c.err)
	}
}
