package sweep

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/limit"
	"github.com/profllm/profllm/pkg/source"
)

// parseLiteral reads a Python literal as CloudAI writes into its trajectory:
// dicts with string keys, lists, tuples, strings, numbers, True, False, None, and
// nan and inf, which are not literals but are what a list of floats prints. A
// tuple becomes a list, a dict a Table, None a Value that holds nil.
func parseLiteral(text string) (*source.Value, error) {
	p := literal{text: text}
	v, err := p.value(0)
	if err == nil {
		p.space()
		if p.at < len(text) {
			err = fmt.Errorf("text after the end of the value")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("not a Python literal: byte %d: %w", p.at+1, err)
	}
	return v, nil
}

type literal struct {
	text string
	at   int
}

func (p *literal) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// peek is the next byte after space, 0 at the end.
func (p *literal) peek() byte {
	p.space()
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *literal) value(depth int) (*source.Value, error) {
	if depth > limit.Depth {
		return nil, fmt.Errorf("nested more than %d deep", limit.Depth)
	}
	switch p.peek() {
	case 0:
		return nil, fmt.Errorf("a value is missing")
	case '{':
		return p.dict(depth)
	case '[':
		return p.list(']', depth)
	case '(':
		return p.list(')', depth)
	case '\'', '"':
		s, err := p.string()
		return &source.Value{Any: s}, err
	}
	return p.word()
}

// list reads the elements up to end. One element in parentheses without a comma
// is that element, as in Python.
func (p *literal) list(end byte, depth int) (*source.Value, error) {
	p.at++
	list := []*source.Value{}
	comma := false
	for p.peek() != end {
		if len(list) > 0 && !comma {
			return nil, fmt.Errorf("expected a comma or %q", end)
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if comma = p.peek() == ','; comma {
			p.at++
		}
	}
	p.at++
	if end == ')' && len(list) == 1 && !comma {
		return list[0], nil
	}
	return &source.Value{Any: list}, nil
}

func (p *literal) dict(depth int) (*source.Value, error) {
	p.at++
	t := source.NewTable(source.Pos{})
	comma := true
	for p.peek() != '}' {
		if !comma {
			return nil, fmt.Errorf("expected a comma or '}'")
		}
		if c := p.peek(); c != '\'' && c != '"' {
			return nil, fmt.Errorf("expected a key in quotes")
		}
		k, err := p.string()
		if err != nil {
			return nil, err
		}
		if t.Has(k) {
			return nil, fmt.Errorf("the key %q occurs twice", k)
		}
		if p.peek() != ':' {
			return nil, fmt.Errorf("expected a colon after the key %q", k)
		}
		p.at++
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		t.Set(k, v)
		if comma = p.peek() == ','; comma {
			p.at++
		}
	}
	p.at++
	return &source.Value{Any: t}, nil
}

// word reads a number or one of Python's names.
func (p *literal) word() (*source.Value, error) {
	end := p.at
	for end < len(p.text) && strings.IndexByte(" \t\r\n,:]})", p.text[end]) < 0 {
		end++
	}
	w := p.text[p.at:end]
	v := &source.Value{}
	switch w {
	case "True", "False":
		v.Any = w == "True"
	case "None":
	case "nan":
		v.Any = math.NaN()
	case "inf", "-inf":
		v.Any = math.Inf(len("inf") - len(w))
	default:
		n, err := number(w)
		if err != nil {
			return nil, err
		}
		v.Any = n
	}
	p.at = end
	return v, nil
}

func number(w string) (any, error) {
	if strings.Trim(w, "0123456789+-.eE") != "" || w == "" {
		return nil, fmt.Errorf("%q is neither a number nor True, False or None", w)
	}
	if !strings.ContainsAny(w, ".eE") {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not an integer of 64 bits", w)
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(w, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", w)
	}
	return f, nil
}

// escapes are Python's escapes of one letter.
var escapes = map[byte]string{
	'\\': "\\", '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
	'\n': "",
}

func (p *literal) string() (string, error) {
	quote := p.text[p.at]
	p.at++
	var b strings.Builder
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == quote:
			p.at++
			return b.String(), nil
		case c == '\n':
			return "", fmt.Errorf("a line ends inside a string")
		case c == '\\':
			s, err := p.escape()
			if err != nil {
				return "", err
			}
			b.WriteString(s)
		default:
			b.WriteByte(c)
			p.at++
		}
	}
	return "", fmt.Errorf("a string is not closed")
}

func (p *literal) escape() (string, error) {
	if p.at+1 == len(p.text) {
		return "", fmt.Errorf("a string is not closed")
	}
	c := p.text[p.at+1]
	if s, ok := escapes[c]; ok {
		p.at += 2
		return s, nil
	}
	digits, base := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c], 16
	from := p.at + 2
	if c >= '0' && c <= '7' {
		digits, base, from = 0, 8, p.at+1
		for digits < 3 && from+digits < len(p.text) && p.text[from+digits] >= '0' && p.text[from+digits] <= '7' {
			digits++
		}
	}
	if digits == 0 || from+digits > len(p.text) {
		return "", fmt.Errorf("unknown escape \\%c", c)
	}
	n, err := strconv.ParseUint(p.text[from:from+digits], base, 32)
	if err != nil || n > unicode.MaxRune || !utf8.ValidRune(rune(n)) {
		return "", fmt.Errorf("%q is not a character", p.text[p.at:from+digits])
	}
	p.at = from + digits
	return string(rune(n)), nil
}

// Literal is v as Python's repr writes it; None for a Value that holds nil.
func Literal(v *source.Value) string { return string(appendLiteral(nil, v)) }

// appendLiteral writes v as Python's repr does.
func appendLiteral(b []byte, v *source.Value) []byte {
	switch x := v.Any.(type) {
	case string:
		return appendRepr(b, x)
	case int64:
		return strconv.AppendInt(b, x, 10)
	case float64:
		return append(b, floatText(x)...)
	case bool:
		if x {
			return append(b, "True"...)
		}
		return append(b, "False"...)
	case []*source.Value:
		b = append(b, '[')
		for i, e := range x {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendLiteral(b, e)
		}
		return append(b, ']')
	case *source.Table:
		b = append(b, '{')
		for i, k := range x.Keys() {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(appendRepr(b, k), ": "...)
			b = appendLiteral(b, x.Get(k))
		}
		return append(b, '}')
	}
	return append(b, "None"...)
}

// appendRepr quotes s as repr does: single quotes, unless s has some and no
// double ones.
func appendRepr(b []byte, s string) []byte {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b = append(b, byte(quote))
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b = append(append(b, '\\'), byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case unicode.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r < 0x100:
			b = fmt.Appendf(b, `\x%02x`, r)
		case r < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = fmt.Appendf(b, `\U%08x`, r)
		}
	}
	return append(b, byte(quote))
}
