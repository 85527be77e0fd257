package terminal_test

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/terminal"
)

func sample() *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Name: "run"}, {Name: "TTFT ms mean", Right: true, Drop: 1},
		{Name: "median", Full: "TTFT ms median", Right: true}, {Name: "reason", Drop: 2},
	}}
	row := func(last terminal.Cell, texts ...string) {
		var cells []terminal.Cell
		for _, text := range texts {
			cells = append(cells, terminal.Cell{Text: text})
		}
		t.Row(append(cells, last)...)
	}
	row(terminal.Cell{Text: "the server died \x1b[2J of a fault"}, "a/0", "51.2345", "50.1")
	row(terminal.Cell{Text: "ok", Tone: terminal.Good}, "long/name/of/a/run", "1.5", "1")
	return t
}

// Off a terminal a table is whole and plain.
func TestTableOffATerminal(t *testing.T) {
	got := sample().Text(terminal.Screen{})
	require.Contains(t, got, "run                 TTFT ms mean  median  reason\n")
	require.Contains(t, got, "long/name/of/a/run           1.5       1  ok")
	require.NotContains(t, got, "hidden")
}

// At every width no line is longer, and columns are left out in their order; what is left
// out is named.
func TestTableFits(t *testing.T) {
	for width := 12; width <= 90; width++ {
		for line := range strings.SplitSeq(sample().Text(terminal.Screen{Width: width, Colour: true}), "\n") {
			if !strings.Contains(line, "--wide") || width > 30 {
				require.LessOrEqual(t, text.StringWidthWithoutEscSequences(line), width, "%d: %q", width, line)
			}
		}
	}
	got := sample().Text(terminal.Screen{Width: 50})
	require.Contains(t, got, "1 column hidden (TTFT ms mean); --wide shows all")
	require.Contains(t, got, "TTFT ms", "the header that says what the median is of")
	require.Contains(t, sample().Text(terminal.Screen{Width: 30}), "2 columns hidden (TTFT ms")
	require.NotContains(t, sample().Text(terminal.Screen{Width: 90}), "hidden")
}

// A column that has no text is left out first, and not mentioned.
func TestEmptyColumns(t *testing.T) {
	c := terminal.Table{Columns: []terminal.Column{{Name: "run"}, {Name: "reason", Drop: 1}, {Name: "note", Drop: 2}}}
	c.Row(terminal.Cell{Text: strings.Repeat("x", 20)}, terminal.Cell{}, terminal.Cell{Text: "ok"})
	require.Contains(t, c.Text(terminal.Screen{Width: 40}), "reason")
	narrow := c.Text(terminal.Screen{Width: 30})
	require.NotContains(t, narrow, "reason")
	require.Contains(t, narrow, "note")
	require.NotContains(t, narrow, "hidden")
}

// Only tones are coloured, and controls of a cell are not obeyed.
func TestTableColours(t *testing.T) {
	got := sample().Text(terminal.Screen{Width: 90, Colour: true})
	require.Contains(t, got, "\x1b[32mok\x1b[0m")
	require.Contains(t, got, `\u001b[2J`)
	require.Equal(t, 2, strings.Count(got, "\x1b"))
	require.NotContains(t, sample().Text(terminal.Screen{Width: 90}), "\x1b")
}

// A folded cell keeps every character, and its colour.
func TestTableFolds(t *testing.T) {
	long := "one two three/four/five " + strings.Repeat("x", 50)
	c := terminal.Table{Columns: []terminal.Column{{Name: "a"}, {Name: "b"}}}
	c.Row(terminal.Cell{Text: long, Tone: terminal.Bad}, terminal.Cell{Text: "é世界世界"})
	got := c.Text(terminal.Screen{Width: 30, Colour: true})
	var letters strings.Builder
	for line := range strings.SplitSeq(got, "\n") {
		if _, cell, ok := strings.Cut(line, "\x1b[31m"); ok {
			cell, _, _ = strings.Cut(cell, "\x1b[0m")
			letters.WriteString(cell)
		}
	}
	require.Equal(t, strings.ReplaceAll(long, " ", ""), strings.ReplaceAll(letters.String(), " ", ""))
	require.Contains(t, got, "世界")
}

// Messages are folded between words; commands that are to be copied stay whole.
func TestMessage(t *testing.T) {
	const hint = "profllm stage scenario.toml --system site.toml --timeout 2h"
	message := "note: the model is not there and will be fetched by every node\n\thint: " + hint
	require.Equal(t, message, terminal.Screen{}.Message(terminal.Plain, message))
	require.Equal(t, "note: the model is not there\n  and will be fetched by every\n  node\n\thint: "+hint,
		terminal.Screen{Width: 30}.Message(terminal.Plain, message))
	require.Contains(t, terminal.Screen{Colour: true}.Message(terminal.Plain, message), "\x1b[36mhint:\x1b[0m profllm")
	require.Equal(t, "\x1b[31mbad \\u001b[2J\x1b[0m",
		terminal.Screen{Colour: true}.Message(terminal.Bad, "bad \x1b[2J"))
}

// A column of text keeps its indent, and a narrow screen has none.
func TestHang(t *testing.T) {
	require.Equal(t, "do  stage the\n    model first", terminal.Screen{Width: 15}.Hang("do  ", "stage the model first"))
	require.Equal(t, "do  stage the model first", terminal.Screen{}.Hang("do  ", "stage the model first"))
	require.Equal(t, "do  stage the model first", terminal.Screen{Width: 7}.Hang("do  ", "stage the model first"))
}
