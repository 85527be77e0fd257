package columns_test

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/query"
)

// duckTable is the same runs in a file of DuckDB, whose columns have dictionaries. It counts
// values and takes statistics; it makes no histograms, so that it has less to do.
type duckTable struct {
	b       *testing.B
	program string
	q       query.Query
	names   []string
	texts   map[string]bool // fields in which some run has a text
	file    *os.File
	rows    *csv.Writer
}

func newDuckTable(b *testing.B, program string, q query.Query) *duckTable {
	d := &duckTable{b: b, program: program, q: q, texts: map[string]bool{}}
	d.names = slices.Compact(slices.Sorted(slices.Values(slices.Concat(q.Facets, q.Metrics))))
	f, err := os.Create(filepath.Join(b.TempDir(), "runs.csv"))
	require.NoError(b, err)
	d.file, d.rows = f, csv.NewWriter(f)
	return d
}

func (d *duckTable) add(runs []query.Run) {
	row := make([]string, len(d.names))
	for i := range runs {
		clear(row)
		for _, c := range runs[i].Cells {
			at, asked := slices.BinarySearch(d.names, c.Field.Name)
			if !asked {
				continue
			}
			row[at] = c.Value.String()
			if !c.Value.IsNumber() {
				d.texts[c.Field.Name] = true
			}
		}
		require.NoError(d.b, d.rows.Write(row))
	}
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// ask gives the time that DuckDB itself says a question took, once the first was asked.
func (d *duckTable) ask(filters []*filter.Filter, matches []int) []time.Duration {
	d.rows.Flush()
	require.NoError(d.b, d.rows.Error())
	require.NoError(d.b, d.file.Close())
	var sql strings.Builder
	sql.WriteString("SET preserve_insertion_order = false;\nCREATE TABLE runs AS SELECT * FROM read_csv(")
	fmt.Fprintf(&sql, "'%s', header = false, columns = {", d.file.Name())
	for i, name := range d.names {
		kind := "DOUBLE"
		if d.texts[name] {
			kind = "VARCHAR"
		}
		fmt.Fprintf(&sql, "%s'%s': '%s'", strings.Repeat(", ", min(i, 1)), name, kind)
	}
	sql.WriteString("});\nCHECKPOINT;\n.mode csv\n.headers off\n")
	for i, f := range append(filters[:1:1], filters...) { // the first warms up
		fmt.Fprintf(&sql, "SELECT 'matches', count(*) FROM runs WHERE %s;\n", d.where(f, ""))
		fmt.Fprintf(&sql, ".print question %d\n.timer on\n.output %s\n%s\n.output\n.timer off\n", i, os.DevNull, d.question(f))
	}
	out, err := d.run(sql.String())
	require.NoError(d.b, err, "%s", out)
	return d.times(out, matches)
}

func (d *duckTable) run(sql string) (string, error) {
	c := exec.CommandContext(d.b.Context(), d.program, filepath.Join(filepath.Dir(d.file.Name()), "runs.duckdb"))
	c.Stdin = strings.NewReader(sql)
	out, err := c.CombinedOutput()
	return string(out), err
}

// question is one statement for the statistics, and one for all facets. Of what was tried, this
// is the quickest: one statement for each facet takes twice as long, and grouping sets take
// several times as long.
func (d *duckTable) question(f *filter.Filter) string {
	var b strings.Builder
	b.WriteString("SELECT count(*)")
	for _, m := range d.q.Metrics {
		fmt.Fprintf(&b, ", count(%[1]s), min(%[1]s), max(%[1]s), avg(%[1]s)", quoted(m))
	}
	fmt.Fprintf(&b, " FROM runs WHERE %s;\n", d.where(f, ""))
	for i, name := range d.q.Facets {
		fmt.Fprintf(&b, "%s(SELECT %s::VARCHAR, count(*) n FROM runs WHERE %s GROUP BY 1 ORDER BY n DESC LIMIT 1000)",
			strings.Repeat(" UNION ALL ", min(i, 1)), quoted(name), d.where(f, name))
	}
	b.WriteString(";\n")
	return b.String()
}

// where is a filter without its conditions on a field.
func (d *duckTable) where(f *filter.Filter, without string) string {
	parts := []string{"true"}
	for i := range f.And {
		c := &f.And[i].Condition
		if c.Field == without {
			continue
		}
		name := quoted(c.Field)
		switch {
		case c.In != nil:
			var list []string
			for _, v := range c.In {
				list = append(list, d.literal(c.Field, v))
			}
			parts = append(parts, name+" IN ("+strings.Join(list, ", ")+")")
		case c.Contains != "":
			parts = append(parts, fmt.Sprintf("contains(lower(%s), '%s')", name, c.Contains))
		case c.Min != nil:
			parts = append(parts, fmt.Sprintf("TRY_CAST(%[1]s AS DOUBLE) >= %[2]s AND isfinite(TRY_CAST(%[1]s AS DOUBLE))", name, c.Min))
		case c.Max != nil:
			parts = append(parts, fmt.Sprintf("TRY_CAST(%s AS DOUBLE) <= %s", name, c.Max))
		}
	}
	return strings.Join(parts, " AND ")
}

func (d *duckTable) literal(name string, v field.Value) string {
	if d.texts[name] {
		return "'" + strings.ReplaceAll(v.String(), "'", "''") + "'"
	}
	return v.String()
}

var realTime = regexp.MustCompile(`Run Time \(s\): real (\S+)`)

// times are those of the questions but the first; DuckDB must have found as many runs.
func (d *duckTable) times(out string, matches []int) []time.Duration {
	var list []time.Duration
	at := -1
	var found []int
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "matches,"); ok {
			n, err := strconv.Atoi(rest)
			require.NoError(d.b, err)
			found = append(found, n)
		}
		if strings.HasPrefix(line, "question ") {
			list = append(list, 0)
			at++
		}
		if m := realTime.FindStringSubmatch(line); m != nil {
			s, err := strconv.ParseFloat(m[1], 64)
			require.NoError(d.b, err)
			list[at] += time.Duration(s * float64(time.Second))
		}
	}
	require.Len(d.b, list, len(matches)+1, "%s", out)
	require.Equal(d.b, matches, found[1:], "runs that DuckDB finds")
	return list[1:]
}
