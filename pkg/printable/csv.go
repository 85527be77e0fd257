package printable

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
)

// CSV writes tables that a spreadsheet shows and does not compute.
type CSV struct{ *csv.Writer }

// NewCSV returns a writer of tables.
func NewCSV(w io.Writer) CSV { return CSV{csv.NewWriter(w)} }

// Write writes one row, each cell as Cell has it.
func (c CSV) Write(row []string) error {
	cells := make([]string, len(row))
	for i, text := range row {
		cells[i] = Cell(text)
	}
	return c.Writer.Write(cells)
}

// formula begins what a spreadsheet computes, also in the wide forms that some take
// for the narrow ones.
const formula = "=+-@\uff1d\uff0b\uff0d\uff20"

// quoted stands before such a cell: the sign by which spreadsheets know text.
const quoted = "'"

// Cell is a cell's text: without controls, and with an apostrophe before what would
// be a formula. Numbers stay as they are.
func Cell(s string) string {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	if s = Line(s); computed(strings.TrimLeft(s, " "+quoted)) {
		return quoted + s
	}
	return s
}

// CellText is the text that Cell was made from, controls excepted.
func CellText(cell string) string {
	if text, ok := strings.CutPrefix(cell, quoted); ok && computed(strings.TrimLeft(text, " "+quoted)) {
		return text
	}
	return cell
}

func computed(s string) bool { return s != "" && strings.ContainsAny(s[:runeLen(s)], formula) }

// runeLen is the length of the first character.
func runeLen(s string) int {
	for i := range s {
		if i > 0 {
			return i
		}
	}
	return len(s)
}
