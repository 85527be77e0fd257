package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/columns"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
)

// Live is a store whose runs are in memory too, as columns, where questions are answered. Without
// columns, the database answers them alone, more slowly and in less memory.
type Live struct {
	*store.Store
	table *columns.Table // nil: none

	mu   sync.Mutex // one reads changes at a time
	seen int64
}

// batch is how many runs go into the columns at once.
const batch = 1000

// Load reads the runs of a store into memory.
func Load(ctx context.Context, s *store.Store) (*Live, error) {
	l := &Live{Store: s, table: columns.New()}
	return l, l.catchUp(ctx)
}

// InDatabase leaves the runs in the store alone.
func InDatabase(s *store.Store) *Live { return &Live{Store: s} }

// catchUp takes over what changed in the store, whoever changed it.
func (l *Live) catchUp(ctx context.Context) error {
	if l.table == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var some []query.Run
	flush := func() {
		l.table.PutAll(some)
		some = some[:0]
	}
	last, err := l.Changes(ctx, l.seen, func(c store.Change) error {
		if c.Gone {
			flush()
			l.table.Delete(c.ID)
			return nil
		}
		if some = append(some, query.Run{ID: c.ID, Cells: c.Cells}); len(some) == batch {
			flush()
		}
		return nil
	})
	flush()
	if err == nil {
		l.seen = last
	}
	return err
}

// Follow takes over what other programs change in the store, until ctx ends.
func (l *Live) Follow(ctx context.Context, every time.Duration, failed func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := l.catchUp(ctx); err != nil && ctx.Err() == nil {
				failed(err)
			}
		}
	}
}

// Put stores runs; once it returns, questions find them.
func (l *Live) Put(ctx context.Context, runs []records.Run) ([]store.Outcome, error) {
	outcomes, err := l.Store.Put(ctx, runs)
	if err != nil {
		return nil, err
	}
	return outcomes, l.catchUp(ctx)
}

// Query answers a question.
func (l *Live) Query(ctx context.Context, q query.Query) (*query.Answer, error) {
	if l.table == nil {
		return l.Store.Query(ctx, q)
	}
	return l.table.Query(ctx, q)
}

// changes counts the changes of what answers questions.
func (l *Live) changes(ctx context.Context) (int64, error) {
	if l.table == nil {
		return l.Store.Last(ctx)
	}
	return l.table.Changes(), nil
}

// Each calls visit for every run that meets a filter, in any order, with its values of some fields, which visit
// does not keep.
func (l *Live) Each(
	ctx context.Context, f *filter.Filter, fields []string, visit func(id []byte, v []field.Value),
) error {
	if l.table == nil {
		return l.Scan(ctx, f, fields, visit)
	}
	return l.table.Each(ctx, f, fields, visit)
}

// Fields are those that any run has.
func (l *Live) Fields(ctx context.Context) ([]*field.Field, error) {
	if l.table == nil {
		return l.Store.Fields(ctx)
	}
	return l.table.Fields(ctx)
}

// bytes is what the columns take in memory.
func (l *Live) bytes() int64 {
	if l.table == nil {
		return 0
	}
	return l.table.Size()
}
