package redact

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
)

// Least is the length, in bytes, from which a value, or a line of one, can be
// looked for: a shorter one stands in too much text that is no secret. It is also
// the length of a uint64, by which values are found.
const Least = 8

// Values knows secrets by value. The zero value knows none.
type Values struct {
	forms  []string                    // longest first, so that a part never hides the whole
	starts map[uint64][]string         // by their first Least bytes
	heads  *[1 << headBits / 64]uint64 // of which of these there are any, by hash
}

// Known returns Values that know each of the given secrets: the whole, each of
// its lines, and either as JSON, Python, a shell, a URL and base64 write it.
func Known(secrets ...string) Values {
	seen := map[string]bool{}
	var v Values
	add := func(s string) {
		if len(s) >= Least && !seen[s] {
			seen[s] = true
			v.forms = append(v.forms, s)
		}
	}
	for _, secret := range secrets {
		for _, s := range append([]string{secret},
			strings.FieldsFunc(secret, func(r rune) bool { return r == '\n' || r == '\r' })...) {
			if len(strings.TrimSpace(s)) < Least {
				continue
			}
			for _, form := range spellings(s) {
				add(form)
			}
			add(strings.TrimSpace(s))
		}
	}
	slices.SortStableFunc(v.forms, func(a, b string) int { return len(b) - len(a) })
	v.starts, v.heads = map[uint64][]string{}, new([1 << headBits / 64]uint64)
	for _, form := range v.forms {
		head := binary.LittleEndian.Uint64([]byte(form))
		v.starts[head] = append(v.starts[head], form)
		slot := hash(head)
		v.heads[slot/64] |= 1 << (slot % 64)
	}
	return v
}

// Empty reports whether there is nothing to look for.
func (v Values) Empty() bool { return len(v.forms) == 0 }

// spellings are the ways in which programs print s.
func spellings(s string) []string {
	quoted, _ := json.Marshal(s) // of a string it cannot fail
	inJSON := string(quoted[1 : len(quoted)-1])
	var plain strings.Builder
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	unescaped := strings.TrimSuffix(plain.String(), "\n")
	unescaped = unescaped[1 : len(unescaped)-1]
	python := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	return []string{
		s, inJSON, unescaped, ascii(inJSON), ascii(unescaped),
		python.Replace(s), strings.ReplaceAll(python.Replace(s), `'`, `\'`), // repr, within either quote
		// bash: set, declare within single quotes
		strings.ReplaceAll(s, `'`, `'\''`),
		strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s),              // bash: export -p
		strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s), // bash: $'...'
		url.QueryEscape(s), url.PathEscape(s), strings.ReplaceAll(url.QueryEscape(s), "+", "%20"),
		strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(s)), // urllib.parse.quote
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(s)), "="),
		strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(s)), "="),
	}
}

// ascii writes JSON as those do who trust no other letter.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Text replaces every known value, and then what has the shape of a secret.
func (v Values) Text(s string) string {
	for _, form := range v.forms {
		if strings.Contains(s, form) {
			s = strings.ReplaceAll(s, form, Mark)
		}
	}
	return Line(s)
}
