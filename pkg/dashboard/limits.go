package dashboard

import (
	"context"
	"errors"
	"fmt"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/semaphore"

	"github.com/profllm/profllm/pkg/query"
)

// The limits of one question, besides those of package query. A page asks for some ten facets, and for 10,000 rows
// of some five fields.
const (
	mostNamed = 256       // facets, and metrics
	mostCells = 1_000_000 // values of rows that are in memory at once: 32 MB
	mostNames = 5000      // fields of rows
)

// checked refuses a question that cannot be understood, or whose answer would need much memory.
func checked(q *query.Query) error {
	if err := limited(q); err != nil {
		return refused(err)
	}
	if err := q.Check(); err != nil {
		return refused(err)
	}
	return nil
}

func limited(q *query.Query) error {
	switch r := q.Rows; {
	case len(q.Facets) > mostNamed:
		return fmt.Errorf("%d facets are more than %d", len(q.Facets), mostNamed)
	case len(q.Metrics) > mostNamed:
		return fmt.Errorf("%d metrics are more than %d", len(q.Metrics), mostNamed)
	case r != nil && len(r.Fields) > mostNames:
		return fmt.Errorf("%d fields are more than %d", len(r.Fields), mostNames)
	case r != nil && r.Limit > rowsOf(len(r.Fields)):
		return fmt.Errorf("%d rows of %d fields are more than %d values", r.Limit, len(r.Fields), mostCells)
	}
	return nil
}

// rowsOf is how many rows of so many fields may be in memory at once.
func rowsOf(fields int) int { return max(1, min(query.MaxRows, mostCells/max(1, fields))) }

// mostAtOnce is how many values the answers may have in memory that are computed or written at once: some 700 MB. An
// export has a page of them until its reader has taken it, who may be slow.
const mostAtOnce = 8 * mostCells

// A reservation is the room that a request has for its values, until its answer is written.
type reservation struct {
	room   *semaphore.Weighted
	values int64
}

type reservationKey struct{}

// reserving gives a request room for its values, none yet. release gives it back.
func (d *Server) reserving(ctx context.Context) (with context.Context, release func()) {
	r := &reservation{room: d.room}
	return context.WithValue(ctx, reservationKey{}, r), func() { r.room.Release(r.values) }
}

// reserve waits until there is room for the values of rows.
func (d *Server) reserve(ctx context.Context, rows *query.Rows) error {
	r, ok := ctx.Value(reservationKey{}).(*reservation)
	if !ok || rows == nil || rows.Limit == 0 || r.values > 0 {
		return nil
	}
	values := int64(min(rows.Limit*max(1, len(rows.Fields)), mostCells))
	within, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	if r.room.Acquire(within, values) != nil {
		return huma.Error503ServiceUnavailable("other requests for many rows are under way; try again")
	}
	r.values = values
	return nil
}

// mostAnalyses is how many analyses run at once: each has up to 5,000 whole records in memory.
const mostAnalyses = 4

// analysed is an operation that waits until few others run.
func analysed[In, Out any](
	d *Server, do func(context.Context, *In) (*Out, error),
) func(context.Context, *In) (*Out, error) {
	return func(ctx context.Context, in *In) (*Out, error) {
		select {
		case d.analyses <- struct{}{}:
			defer func() { <-d.analyses }()
			return do(ctx, in)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, huma.Error503ServiceUnavailable(fmt.Sprintf("%d analyses are under way; try again", mostAnalyses))
			}
			return nil, d.failed(ctx.Err())
		}
	}
}
