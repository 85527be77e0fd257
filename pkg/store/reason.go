package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	sqlitedriver "modernc.org/sqlite"
)

// Reason is what anybody may read of an error of a store. It has no address, name, user or folder of the database,
// which the text of the error may have.
func Reason(err error) string {
	var refused *pgconn.PgError
	var lite *sqlitedriver.Error
	var number syscall.Errno
	unreachable := errors.As(err, new(*pgconn.ConnectError))
	switch {
	case errors.Is(err, ErrReplaced):
		return "the file of the store was removed or replaced while the server used it"
	case (*sqlite)(nil).full(err) || (*postgres)(nil).full(err):
		return "the store has no room"
	case errors.As(err, &refused):
		return fmt.Sprintf("the database reported error %s", refused.Code)
	case errors.As(err, &lite):
		return fmt.Sprintf("the database reported error %d", lite.Code())
	case errors.Is(err, context.DeadlineExceeded):
		return "the database did not answer in time"
	case errors.As(err, &number) && unreachable:
		return "the database cannot be reached: " + number.Error()
	case unreachable:
		return "the database cannot be reached"
	case errors.As(err, new(*net.OpError)), errors.Is(err, driver.ErrBadConn), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection to the database broke"
	case errors.As(err, &number):
		return number.Error()
	}
	return "the store reported an error, which the server's log describes"
}
