package printable

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// requireHarmless looks for what a terminal obeys.
func requireHarmless(t *testing.T, s, keep string) {
	t.Helper()
	require.True(t, utf8.ValidString(s))
	for _, r := range s {
		if strings.ContainsRune(keep, r) {
			continue
		}
		require.False(t, unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029',
			"%U in %q", r, s)
	}
}

var nasty = []string{
	"\x1b[2J\x1b]0;title\x07", "a\x00b\x08\x7f", "\u009b31m", "\u202eabc\u2066\u200f", "a\r\nb\rc", "\xff\xfe\x80", "Grüße 世界 👩‍💻", "tab\tline\n", "\u2028\ufeff",
	"=1+1", "+1", "-1.5", "-x", "@SUM(A1)", "\t=1", "\r=1", "＝1+1", "＋a", "－a", "＠a", "'=1", " =1", "''=1", "-1e9999", "+", "'", "",
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[31mred": `\u001b[31mred`, "a\tb\n": "a\tb\n", "a\rb": `a\u000db`, "\u202ex": `\u202ex`, "\u009bx": `\u009bx`, "Grüße 👩‍💻": "Grüße 👩‍💻", "\xffx": "\ufffdx", "\ufffdx": "\ufffdx",
	} {
		require.Equal(t, want, Text(in))
	}
	require.Equal(t, `a\u0009b\u000a`, Line("a\tb\n"))
}

// However a text is cut into calls, the writer writes the same.
func TestWriterOverCuts(t *testing.T) {
	for _, in := range nasty {
		in += "\n"
		for cut := range len(in) {
			var b bytes.Buffer
			w := NewWriter(&b)
			for _, part := range []string{in[:cut], in[cut:]} {
				n, err := w.Write([]byte(part))
				require.NoError(t, err)
				require.Equal(t, len(part), n)
			}
			require.Equal(t, stream(in), b.String(), "%q at %d", in, cut)
			requireHarmless(t, strings.ReplaceAll(b.String(), "\r\n", "\n"), "\n\t")
		}
	}
}

// JSON that goes through a writer says what it said.
func TestJSONStaysTheSame(t *testing.T) {
	for _, in := range nasty {
		in = strings.ToValidUTF8(in, "?")
		text, err := json.Marshal(in)
		require.NoError(t, err)
		var b bytes.Buffer
		_, err = NewWriter(&b).Write(text)
		require.NoError(t, err)
		var out string
		require.NoError(t, json.Unmarshal(b.Bytes(), &out))
		require.Equal(t, in, out)
	}
}

func TestCells(t *testing.T) {
	for in, want := range map[string]string{
		"=1+1": "'=1+1", "-1.5": "-1.5", "+1e-3": "+1e-3", "-x": "'-x", "@a": "'@a", "＝1": "'＝1", "－x": "'－x", " =1": "' =1", "\t=1": `\u0009=1`, "plain": "plain", "": "", "'": "'", "'=1": "''=1",
	} {
		require.Equal(t, want, Cell(in), in)
	}
}

func FuzzWriters(f *testing.F) {
	for _, s := range nasty {
		f.Add(s, "b", 1)
	}
	f.Fuzz(func(t *testing.T, one, two string, cut int) {
		requireHarmless(t, Line(one), "")
		requireHarmless(t, Text(one), "\n\t")
		require.Equal(t, Text(one), Text(Text(one)))
		var b bytes.Buffer
		c := NewCSV(&b)
		require.NoError(t, c.Write([]string{one, two, "end"}))
		c.Flush()
		row, err := csv.NewReader(&b).Read()
		require.NoError(t, err)
		for i, text := range []string{one, two} {
			requireHarmless(t, row[i], "")
			require.Equal(t, Line(text), CellText(row[i]))
			if first, _ := utf8.DecodeRuneInString(row[i]); strings.ContainsRune(formula, first) && row[i] != "" {
				require.Equal(t, text, row[i], "a number")
			}
		}
		var w bytes.Buffer
		out, k := NewWriter(&w), min(max(cut, 0), len(one))
		for _, part := range []string{one[:k], one[k:], "\n"} {
			_, err := out.Write([]byte(part))
			require.NoError(t, err)
		}
		requireHarmless(t, strings.ReplaceAll(w.String(), "\r\n", "\n"), "\n\t")
	})
}
