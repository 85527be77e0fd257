package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/profllm/profllm/pkg/printable"
)

// Table is a table of one line for each row where there is room. On a narrow screen cells
// are folded, and then columns are left out.
type Table struct {
	Columns []Column
	rows    [][]Cell
}

// Column is a column.
type Column struct {
	Name  string
	Full  string // the name where another column is left out; default: Name
	Right bool   // numbers
	Whole bool   // of texts that are copied: folded only if nothing else can be
	Drop  int    // on a narrow screen, columns with the least number above 0 are left out first; 0: never
}

// Cell is a cell.
type Cell struct {
	Text string
	Tone Tone
}

// Row appends a row, which has a cell for each column.
func (t *Table) Row(cells ...Cell) {
	t.rows = append(t.rows, cells)
}

// Text is the table, with a line that says what is left out.
func (t *Table) Text(s Screen) string {
	if s != (Screen{}) {
		t = t.harmless()
	}
	shown, hidden := t.fit(s.Width)
	p := table.NewWriter()
	p.SetStyle(table.StyleLight)
	p.Style().Format.Header = text.FormatDefault
	p.Style().Options.DrawBorder = false
	p.Style().Options.SeparateColumns = false
	var header table.Row
	var configs []table.ColumnConfig
	for i, c := range shown {
		header = append(header, wrap(c.name, c.max))
		config := table.ColumnConfig{Number: i + 1}
		if c.Right {
			config.Align, config.AlignHeader = text.AlignRight, text.AlignRight
		}
		configs = append(configs, config)
	}
	p.AppendHeader(header)
	p.SetColumnConfigs(configs)
	for _, cells := range t.rows {
		var row table.Row
		for _, c := range shown {
			row = append(row, s.cell(cells[c.at], c.max))
		}
		p.AppendRow(row)
	}
	lines := strings.Split(p.Render(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	if len(hidden) > 0 {
		word := "columns"
		if len(hidden) == 1 {
			word = "column"
		}
		note := fmt.Sprintf("%d %s hidden (%s); --wide shows all", len(hidden), word, strings.Join(hidden, ", "))
		for line := range strings.SplitSeq(s.Fold(note), "\n") {
			lines = append(lines, s.Paint(Faint, line))
		}
	}
	return strings.Join(lines, "\n")
}

// harmless is the table without controls in its texts.
func (t *Table) harmless() *Table {
	out := Table{Columns: slices.Clone(t.Columns)}
	for i, c := range out.Columns {
		out.Columns[i].Name, out.Columns[i].Full = printable.Line(c.Name), printable.Line(c.Full)
	}
	for _, row := range t.rows {
		row = slices.Clone(row)
		for i := range row {
			row[i].Text = printable.Line(row[i].Text)
		}
		out.rows = append(out.rows, row)
	}
	return &out
}

// cell is a cell's text: each of its lines has the colour, which therefore ends with it.
func (s Screen) cell(c Cell, width int) string {
	lines := strings.Split(wrap(c.Text, width), "\n")
	for i := range lines {
		lines[i] = s.Paint(c.Tone, lines[i])
	}
	return strings.Join(lines, "\n")
}

// wrap breaks a cell between words, in paths and in names of keys, and anywhere if that is
// not enough; 0 is any width.
func wrap(cell string, width int) string {
	if width <= 0 || text.StringWidth(cell) <= width {
		return cell
	}
	var lines []string
	line := ""
	for _, part := range parts(cell) {
		if text.StringWidth(strings.TrimRight(line+part, " ")) > width && line != "" {
			lines, line = append(lines, line), ""
		}
		for line += part; text.StringWidth(strings.TrimRight(line, " ")) > width; {
			head := text.Trim(line, width)
			lines, line = append(lines, head), line[len(head):]
		}
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// parts cuts a cell where a line may end.
func parts(cell string) []string {
	var list []string
	from := 0
	for i, r := range cell {
		if r == ' ' || i > 0 && strings.ContainsRune("/_=,", r) {
			list = append(list, cell[from:i+1])
			from = i + 1
		}
	}
	return append(list, cell[from:])
}

// fitted is a column that is shown.
type fitted struct {
	Column
	name    string
	at      int // in the table
	empty   bool
	natural int // columns of the screen that its widest line takes
	least   int // the fewest to which it is folded while others can be left out
	max     int // of this screen; 0: any
}

const (
	padding = 2  // around each column
	folded  = 16 // a column of texts is folded to no less while others can be left out
	tiny    = 4  // and to no less in any case
)

// fit chooses the columns that are shown, and how wide they are.
func (t *Table) fit(width int) (shown []fitted, hidden []string) {
	if width <= 0 {
		for i, c := range t.Columns {
			shown = append(shown, fitted{Column: c, name: c.Name, at: i})
		}
		return shown, nil
	}
	for i, c := range t.Columns {
		shown = append(shown, t.measured(i, c.Name))
	}
	if total(shown, natural) <= width {
		return shown, nil
	}
	shown = slices.DeleteFunc(shown, func(f fitted) bool { return f.empty && f.Drop > 0 })
	var dropped []int
	for {
		if total(shown, least) <= width {
			break
		}
		i := firstToDrop(shown)
		if i < 0 {
			for j := range shown {
				shown[j].least = min(shown[j].least, tiny)
			}
			break
		}
		dropped = append(dropped, shown[i].at)
		shown = slices.Delete(shown, i, i+1)
		for j, c := range shown {
			shown[j] = t.measured(c.at, cmp.Or(c.Full, c.Name))
		}
	}
	slices.Sort(dropped)
	for _, i := range dropped {
		hidden = append(hidden, cmp.Or(t.Columns[i].Full, t.Columns[i].Name))
	}
	share(shown, width)
	return shown, hidden
}

// measured is a column as wide as its texts.
func (t *Table) measured(i int, name string) fitted {
	f := fitted{Column: t.Columns[i], name: name, at: i, empty: true, natural: text.StringWidth(name)}
	for _, part := range parts(name) {
		f.least = max(f.least, text.StringWidth(strings.TrimRight(part, " ")))
	}
	for _, row := range t.rows {
		n := text.StringWidth(row[i].Text)
		f.natural = max(f.natural, n)
		f.empty = f.empty && n == 0
		if !t.Columns[i].Right && !t.Columns[i].Whole {
			n = min(n, folded)
		}
		f.least = max(f.least, n)
	}
	return f
}

func natural(f fitted) int { return f.natural }

func least(f fitted) int { return f.least }

func total(list []fitted, of func(fitted) int) int {
	sum := 0
	for _, f := range list {
		sum += of(f) + padding
	}
	return sum
}

// firstToDrop is the column that is left out next, -1 if all must stay.
func firstToDrop(shown []fitted) int {
	best := -1
	for i, f := range shown {
		if f.Drop > 0 && (best < 0 || f.Drop < shown[best].Drop) {
			best = i
		}
	}
	return best
}

// share gives each column its least width. What is left goes to those that need the least
// more to be whole, and the rest to the one that needs the most.
func share(shown []fitted, width int) {
	left := max(0, width-total(shown, least))
	order := make([]*fitted, len(shown))
	for i := range shown {
		shown[i].max = shown[i].least
		order[i] = &shown[i]
	}
	slices.SortStableFunc(order, func(a, b *fitted) int { return cmp.Compare(a.natural-a.least, b.natural-b.least) })
	for i, f := range order {
		if more := f.natural - f.least; more <= left || i == len(order)-1 {
			more = min(more, left)
			f.max += more
			left -= more
		}
	}
}
