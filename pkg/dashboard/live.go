package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/columns"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/store"
)

// Live is a store whose runs are in memory too, as columns, where questions are answered.
type Live struct {
	*store.Store
	table *columns.Table

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

// catchUp takes over what changed in the store, whoever changed it.
func (l *Live) catchUp(ctx context.Context) error {
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

// Query answers from memory.
func (l *Live) Query(ctx context.Context, q query.Query) (*query.Answer, error) {
	return l.table.Query(ctx, q)
}

// Fields are those that any run has.
func (l *Live) Fields(ctx context.Context) ([]*field.Field, error) { return l.table.Fields(ctx) }

// Bytes is what the columns take in memory.
func (l *Live) Bytes() int64 { return l.table.Size() }
