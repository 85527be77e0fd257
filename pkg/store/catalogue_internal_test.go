package store

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/columns"
	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/tier"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// typesOf are the columns of the table of runs, with their types, as the database has them.
func typesOf(t *testing.T, s *Store) map[string]string {
	t.Helper()
	ask := "SELECT name, type FROM pragma_table_info('benchmark_runs')"
	if s.Kind() == "postgres" {
		ask = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'benchmark_runs'"
	}
	types := map[string]string{}
	require.NoError(t, s.each(t.Context(), s.read, func(r *sql.Rows) error {
		var name, kind string
		err := r.Scan(&name, &kind)
		types[name] = strings.ToLower(kind)
		return err
	}, ask))
	return types
}

// Every option of vLLM's server and client, of all releases, is a field with a column of its own and of its
// type, and a filter finds the run that has a value of it, in both databases and in memory.
//
// covers: SM-1, DB-1, DB-3, DB-7, LIB-5
func TestEveryOption(t *testing.T) {
	tier.Alone(t)
	values := map[string]field.Value{}
	bare, full := plainRun(1, 1), plainRun(2, 1)
	for head, p := range map[string]*arguments.Program{"cmd_args.": arguments.Serve, "bench_cmd_args.": arguments.BenchServe} {
		for _, o := range p.Options() {
			name := head + arguments.Key(o.Name)
			f, err := field.Find(name)
			require.NoError(t, err, name)
			require.False(t, f.Free, "%s has a column of its own", name)
			values[name] = field.OfText(fmt.Sprintf("value %d", len(values)))
			if f.Kind == field.Number {
				values[name] = field.OfNumber(float64(len(values)) + 0.5)
			}
			full.Settings[name] = values[name].String()
		}
	}
	require.Greater(t, len(values), 333, "the catalogue of the specification has so many")
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), place(t), Options{Create: true})
			require.NoError(t, err)
			defer s.Close()
			outcomes, err := s.Put(t.Context(), []records.Run{bare, full})
			require.NoError(t, err)
			types, columnOf := typesOf(t, s), map[string]string{}
			require.GreaterOrEqual(t, len(types), len(values))
			table := columns.New()
			table.PutAll([]query.Run{{ID: outcomes[0].ID, Cells: field.Of(&bare)}, {ID: outcomes[1].ID, Cells: field.Of(&full)}})
			for name, v := range values {
				c, ok := known().column(name)
				require.True(t, ok, name)
				require.Empty(t, columnOf[c.name], "%s and %s", name, columnOf[c.name])
				columnOf[c.name] = name
				want := []string{"text"}
				if v.IsNumber() {
					want = []string{"real", "double precision"}
				}
				require.Contains(t, want, types[c.name], name)
				q := query.Query{
					Filter: &filter.Filter{Condition: filter.Condition{Field: name, In: []field.Value{v}}},
					Rows:   &query.Rows{Fields: []string{name}, Limit: 10},
				}
				for _, engine := range []query.Engine{s, table} {
					got, err := engine.Query(t.Context(), q)
					require.NoError(t, err)
					require.Equal(t, 1, got.Matches, name)
					require.Equal(t, []string{"exp_2"}, got.Rows.IDs)
					require.Equal(t, v, got.Rows.Columns[0][0])
				}
			}
		})
	}
}
