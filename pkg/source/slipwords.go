package source

import (
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

var (
	spacedKey = lazyregexp.New(`^\s*([\w-]+(?:\s+[\w-]+)+)\s*=`)
	colonKey  = lazyregexp.New(`^\s*["']?([\w.-]+)["']?\s*:=?\s*(.*)$`)
)

// keyLine is a line that does not begin with KEY =.
func (s *slip) keyLine() *mend {
	line := s.lineOf(s.at)
	trimmed := strings.TrimSpace(line)
	first := s.start(s.at) + len(line) - len(strings.TrimLeft(line, " \t"))
	if s.has("key name appears blank", "bare keys cannot") {
		return &mend{s.at, "no key before the equals sign", "write KEY = VALUE"}
	}
	if s.has("unexpected '='", "unexpected '.'") {
		return &mend{s.at, "a part of this key is empty", "write one dot between two names: a.b"}
	}
	if !s.has("expected '.' or '='") {
		return nil
	}
	switch {
	case strings.HasPrefix(trimmed, "//"), strings.HasPrefix(trimmed, ";"), strings.HasPrefix(trimmed, "--"):
		return &mend{first, "this line is neither a key nor a comment", "begin a comment with #"}
	case strings.HasPrefix(trimmed, "{"):
		return &mend{first, "a TOML file does not begin with a brace; this looks like JSON",
			`write one key on each line: name = "x"`}
	case strings.HasPrefix(trimmed, "- "):
		return &mend{first, "a dash begins no list in TOML; this looks like YAML", `write KEY = ["a", "b"]`}
	}
	if m := spacedKey.FindStringSubmatch(line); m != nil {
		words := strings.Fields(m[1])
		return &mend{first, fmt.Sprintf("the key %q has a space", m[1]),
			"join the words (" + strings.Join(words, "_") + "), or put the key in quotes"}
	}
	if m := colonKey.FindStringSubmatch(line); m != nil {
		return &mend{s.start(s.at) + strings.IndexByte(line, ':'), "a colon stands in place of the equals sign",
			"write " + m[1] + " = " + asValue(m[2])}
	}
	if !strings.Contains(line, "=") {
		key, value, _ := strings.Cut(trimmed, " ")
		return &mend{s.at, "this line has no equals sign", "write " + key + " = " + asValue(strings.TrimSpace(value))}
	}
	return nil
}

var plainValue = lazyregexp.New(`^([+-]?\d[\d_]*(\.\d+)?|true|false|["'\[{].*)$`)

// asValue is text as a TOML value: a string unless it is a value already.
func asValue(text string) string {
	switch {
	case text == "":
		return "VALUE"
	case plainValue.MatchString(text):
		return text
	}
	return quoted(text)
}

// noValue is a key with nothing behind its equals sign, or with two equals signs.
func (s *slip) noValue() *mend {
	if !s.has("expected value but found", "expected a digit but got '\\n'", "unexpected EOF") {
		return nil
	}
	at, text := s.value()
	switch {
	case text == "" || text == "-" || text == "+":
		at = min(at, s.end(s.start(s.at)))
		return &mend{at, "no value after the equals sign",
			`write a value; the empty string is "", the empty list is []`}
	case strings.HasPrefix(text, "="):
		return &mend{at, "there are two equals signs", "write " + s.key(at) + asValue(strings.TrimLeft(text, "= "))}
	}
	return nil
}

// words of other languages, in lower case, and what TOML has for them.
var otherWords = map[string]string{
	"true": "true", "false": "false", "yes": "true", "no": "false", "on": "true", "off": "false",
	"nan": "nan", "inf": "inf", "+inf": "+inf", "-inf": "-inf", "infinity": "inf", "-infinity": "-inf",
}

// otherWord is a word that other languages have for a value.
func (s *slip) otherWord() *mend {
	at, text := s.value()
	if !s.has("expected value but found", "expected a digit") || strings.ContainsAny(text, " \t") {
		return nil
	}
	switch low := strings.ToLower(text); low {
	case "none", "null", "nil", "undefined":
		return &mend{at, text + " is not a value: TOML has no null",
			"delete the line; a key that is not written has its default"}
	default:
		if word := otherWords[low]; word != "" {
			return &mend{at, text + " is not a TOML value",
				"write " + s.key(at) + word + ", or " + quoted(text) + " if a string is meant"}
		}
	}
	return nil
}

// otherComment is a comment or an end of line as other languages have them.
func (s *slip) otherComment() *mend {
	if !s.has("end with a newline") {
		return nil
	}
	rest := strings.TrimLeft(s.rest(s.at), " \t")
	switch _, text := s.value(); {
	case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "/*"):
		return &mend{s.at, "this is not a comment", "begin a comment with #"}
	case strings.TrimSpace(rest) == ";":
		return &mend{s.at, "a line does not end with a semicolon", "remove the semicolon"}
	case strings.HasPrefix(rest, ";"):
		return &mend{s.at, "this is not a comment", "begin a comment with #"}
	case twoKeys.MatchString(text):
		return &mend{s.at, "two keys stand on one line", "write each key on a line of its own"}
	case strings.HasPrefix(rest, "]"), strings.HasPrefix(rest, "}"):
		return &mend{s.at, "this bracket closes nothing", "remove the bracket, or write the one that opens"}
	}
	return nil
}

var twoKeys = lazyregexp.New(`^("[^"]*"|'[^']*'|[^\s"']+)\s+[\w.-]+\s*=[^=]`)

// quoteInside is a string that ends at a quote that is meant to be part of it, or
// several strings without the brackets of a list.
func (s *slip) quoteInside() *mend {
	at, text := s.value()
	if !s.has("end with a newline") || text == "" || text[0] != '"' && text[0] != '\'' {
		return nil
	}
	if strings.HasPrefix(strings.TrimSpace(s.rest(s.at)), ",") {
		return &mend{at, "several values need the brackets of a list", "write " + s.key(at) + "[" + text + "]"}
	}
	if twoStrings.MatchString(text) {
		return &mend{at, "several values need the brackets and commas of a list",
			"write " + s.key(at) + "[" + strings.Join(oneString.FindAllString(text, -1), ", ") + "]"}
	}
	inner := strings.Trim(text, text[:1])
	if len(text) > 2 && text[len(text)-1] == text[0] {
		inner = text[1 : len(text)-1]
	}
	return &mend{s.at, "the string ends before this text", "write " + s.key(at) + quoted(inner)}
}

var (
	oneString  = lazyregexp.New(`"[^"]*"|'[^']*'`)
	twoStrings = lazyregexp.New(`^("[^"]*"|'[^']*')(\s+("[^"]*"|'[^']*'))+$`)
)

var (
	decimalComma = lazyregexp.New(`^([+-]?\d+),(\d+)$`)
	commaList    = lazyregexp.New(`^[^\s,]+(\s*,\s*[^\s,]+)+,?$`)
	leadingZero  = lazyregexp.New(`^[+-]?0+(\d+)$`)
	pointFirst   = lazyregexp.New(`^([+-]?)(\.\d+)$`)
	pointLast    = lazyregexp.New(`^([+-]?\d+)\.$`)
)

// number is a number as TOML does not write it.
func (s *slip) number() *mend {
	at, text := s.value()
	if m := decimalComma.FindStringSubmatch(text); m != nil && !s.inside() {
		return &mend{at, text + " is not a number",
			"write a decimal point: " + s.key(at) + m[1] + "." + m[2] + "; a list needs brackets: [" + m[1] + ", " +
				m[2] + "]"}
	}
	if s.has("end with a newline") && commaList.MatchString(text) {
		return &mend{at, "several values need the brackets of a list", "write " + s.key(at) + "[" + listOf(text) + "]"}
	}
	if m := leadingZero.FindStringSubmatch(text); m != nil {
		return &mend{at, text + " has a leading zero",
			"write " + s.key(at) + m[1] + ", or " + quoted(text) + " if a string is meant"}
	}
	if m := pointFirst.FindStringSubmatch(text); m != nil {
		return &mend{at, text + " has no digit before its point", "write " + s.key(at) + m[1] + "0" + m[2]}
	}
	if m := pointLast.FindStringSubmatch(text); m != nil {
		return &mend{at, text + " has no digit after its point", "write " + s.key(at) + m[1] + ".0"}
	}
	if s.has("out of range") {
		return &mend{at, text + " does not fit into 64 bits",
			"write a smaller number, or " + quoted(text) + " if a string is meant"}
	}
	return nil
}

func listOf(text string) string {
	parts := strings.Split(strings.TrimSuffix(text, ","), ",")
	for i, p := range parts {
		parts[i] = asValue(strings.TrimSpace(p))
	}
	return strings.Join(parts, ", ")
}

var curly = strings.NewReplacer("“", "", "”", "", "„", "", "‘", "", "’", "", "«", "", "»", "", "`", "")

// bare is everything else that stands where a value must be: a string without quotes.
func (s *slip) bare() *mend {
	if !s.has("expected value but found", "expected a digit", "end with a newline", "nvalid datetime", "nvalid float",
		"nvalid integer", "not a hexadecimal") {
		return nil
	}
	at, text := s.value()
	switch {
	case text == "":
		return nil
	case curly.Replace(text) != text:
		return &mend{at, "these quotes are not straight",
			"strings need straight quotes: " + s.key(at) + quoted(curly.Replace(text))}
	case strings.HasPrefix(text, "(") && strings.HasSuffix(text, ")"):
		return &mend{at, "parentheses make no list", "write " + s.key(at) + "[" + text[1:len(text)-1] + "]"}
	case s.has("nvalid datetime"):
		return &mend{at, text + " is not a date", "strings need quotes: " + s.key(at) + quoted(text)}
	}
	return &mend{at, fmt.Sprintf("%s is not a TOML value", text), "strings need quotes: " + s.key(at) + quoted(text)}
}
