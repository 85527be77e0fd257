package source

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlipsHaveLineCaretAndMend(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1\nname = qwen\n":       "f.toml:2:8: qwen is not a TOML value|name = qwen|       ^|strings need quotes: name = \"qwen\"",
		"a = 30m # half an hour\n":   "f.toml:1:5: 30m is not a TOML value|a = 30m # half an hour|    ^|strings need quotes: a = \"30m\"",
		"a = [\n  \"x\",\n  y\n]\n":  "f.toml:3:3: y is not a TOML value|  y|  ^|strings need quotes: \"y\"",
		"\ta = C:\\x\n":              "f.toml:1:6: C:\\x is not a TOML value|\ta = C:\\x|\t    ^|strings need quotes: a = 'C:\\x'",
		"a = True\r\n":               "f.toml:1:5: True is not a TOML value|a = True|    ^|write a = true, or \"True\" if a string is meant",
		"a = None\n":                 "f.toml:1:5: None is not a value: TOML has no null|a = None|    ^|delete the line; a key that is not written has its default",
		"a = “x”\n":                  "f.toml:1:5: these quotes are not straight|a = “x”|    ^|strings need straight quotes: a = \"x\"",
		"a = 1,5\n":                  "f.toml:1:5: 1,5 is not a number|a = 1,5|    ^|write a decimal point: a = 1.5; a list needs brackets: [1, 5]",
		"a = 1, 2, 3\n":              "f.toml:1:5: several values need the brackets of a list|a = 1, 2, 3|    ^|write a = [1, 2, 3]",
		"a = .5\n":                   "f.toml:1:5: .5 has no digit before its point|a = .5|    ^|write a = 0.5",
		"a = 010\n":                  "f.toml:1:5: 010 has a leading zero|a = 010|    ^|write a = 10, or \"010\" if a string is meant",
		"a = 2024-13-01\n":           "f.toml:1:5: 2024-13-01 is not a date|a = 2024-13-01|    ^|strings need quotes: a = \"2024-13-01\"",
		"a = 1;\n":                   "f.toml:1:6: a line does not end with a semicolon|a = 1;|     ^|remove the semicolon",
		"a = 1 // c\n":               "f.toml:1:6: this is not a comment|a = 1 // c|     ^|begin a comment with #",
		"a = 1 b = 2\n":              "f.toml:1:6: two keys stand on one line|a = 1 b = 2|     ^|write each key on a line of its own",
		"a = 'it's'\n":               "f.toml:1:9: the string ends before this text|a = 'it's'|        ^|write a = \"it's\"",
		"name qwen\n":                "f.toml:1:6: this line has no equals sign|name qwen|     ^|write name = \"qwen\"",
		"name: qwen\n":               "f.toml:1:5: a colon stands in place of the equals sign|name: qwen|    ^|write name = \"qwen\"",
		"a b = 1\n":                  "f.toml:1:1: the key \"a b\" has a space|a b = 1|^|join the words (a_b), or put the key in quotes",
		"a =\n":                      "f.toml:1:4: no value after the equals sign|a =|   ^|write a value; the empty string is \"\", the empty list is []",
		"a == 1\n":                   "f.toml:1:4: there are two equals signs|a == 1|   ^|write a = 1",
		"a = 'x\ny'\n":               "f.toml:1:5: this string is not closed on its line|a = 'x|    ^|end the string with '; a text of several lines stands between ''' and '''",
		"b = \"\"\"x\n\ny":           "f.toml:1:5: this text of several lines is not closed|b = \"\"\"x|    ^|end the text with \"\"\"",
		"a = [1,\n2\nb = 1\n":        "f.toml:1:5: this list is not closed|a = [1,|    ^|end the list with ]",
		"a = [\"x\" \"y\"]\n":        "f.toml:1:10: a comma is missing between two elements of a list|a = [\"x\" \"y\"]|         ^|write a comma before \"y\", or put the text in one pair of quotes",
		"a = {b = 1\n[t]\n":          "f.toml:1:5: this inline table is not closed|a = {b = 1|    ^|end the inline table with }",
		"a = 1\n\na = 2\n":           "f.toml:3:1: key \"a\" is defined twice, first in line 1|a = 2|^|delete one of the two",
		"a.b = 1\na = 2\n":           "f.toml:2:1: key \"a\" is defined twice, first in line 1|a = 2|^|delete one of the two",
		"[t]\nx=1\n[t]\n":            "f.toml:3:2: table \"t\" is defined twice, first in line 1|[t]| ^|put its keys under one header; a list of tables has double brackets: [[t]]",
		"[[Tests]]\nx=1\n[Tests]\n":  "f.toml:3:2: \"Tests\" is a list of tables (line 1), but this header has single brackets|[Tests]| ^|write [[Tests]] to add an element to the list",
		"[[Tests]]\n[Tests.a\nb=1\n": "f.toml:2:9: the brackets of this header do not match|[Tests.a|        ^|write [Tests.a]; [NAME] is a table, [[NAME]] an element of a list of tables",
		"a = \"C:\\data\"\n":         "f.toml:1:8: unknown escape: in double quotes, a backslash begins an escape|a = \"C:\\data\"|       ^|write \\\\ for a backslash, or put the string in single quotes: 'C:\\data'",
		"a = \"\x00\"\n":             "f.toml:1:6: this byte is not UTF-8 text|a = \" \"|     ^|save the file as UTF-8, without control characters",
	} {
		_, err := Parse("f.toml", []byte(text))
		parts := strings.Split(want, "|")
		require.EqualError(t, err, parts[0]+"\n\t"+parts[1]+"\n\t"+parts[2]+"\n\thint: "+parts[3], "%q", text)
	}
}

func TestWhatEditorsWriteIsAccepted(t *testing.T) {
	table, err := Parse("f.toml", []byte("\ufeffa = 1\r\n\tb\t=\t'x'\r\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": int64(1), "b": "x"}, table.Plain())
	require.Equal(t, "f.toml:1:1", table.PosOf("a").String())
	require.Equal(t, "f.toml:2:2", table.PosOf("b").String())
}

func TestLongLinesAreCutAroundTheMistake(t *testing.T) {
	line := "a = [" + strings.Repeat("\"é\", ", 200) + "x, " + strings.Repeat("1, ", 100) + "]"
	_, err := Parse("f.toml", []byte(line))
	shown := strings.Split(err.Error(), "\n")
	require.Len(t, shown, 4)
	require.LessOrEqual(t, len(shown[1]), widest+20)
	require.Equal(t, 'x', []rune(shown[1])[len([]rune(shown[2]))-1], "the caret stands below the mistake")
}

func TestDatesAreNamedAsWritten(t *testing.T) {
	table, err := Parse("f.toml", []byte("name = 00:30:00\nlist = [2024-01-02, 2024-01-02T03:04:05]\n"))
	require.NoError(t, err)
	require.EqualError(t, Decode(table, &target{}), `f.toml:1:1: name must be a string, not the date 00:30:00
	hint: strings need quotes: name = "00:30:00"
f.toml:2:9: list[0] must be a string, not the date 2024-01-02
	hint: strings need quotes: "2024-01-02"
f.toml:2:21: list[1] must be a string, not the date 2024-01-02T03:04:05
	hint: strings need quotes: "2024-01-02T03:04:05"`)
}
