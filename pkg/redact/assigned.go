package redact

import (
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// anyKey is a group with a name that Key may take for that of a secret.
var anyKey = `([a-z0-9_.-]*(?:` + strings.Join(keyHints, "|") + `)[a-z0-9_.-]*)`

// sureKey is how a name ends whose value is a secret in prose as well, where "auth: failed"
// and "InvalidAuthToken: Authentication token is missing" hold none.
var sureKey = lazyregexp.New(`(?i)(?:api[_-]?key|secret(?:[_-]?access)?(?:[_-]?key)?|passw(?:or)?d|passphrase|access[_-]?token|auth[_-]token|^-*authtoken|(?:hf|hub|github|gitlab|ngc|refresh|session)[_-]token)$`)

// leastWord is the length from which a bare word behind a name can be a secret.
const leastWord = 4

// longestProse is the length from which a bare word is none of prose: a line may be megabytes
// of names and colons, and is not read to its end from each.
const longestProse = 1024

// assignedValue finds the secret behind a name and its sign, as JSON, Python, TOML, YAML, a
// shell and prose write them: a bare word, a quoted text, a list or a table.
func assignedValue(s string, m []int) (start, end int) {
	name, at := s[m[2]:m[3]], m[1]
	if at == len(s) || !Key(name) {
		return 0, 0
	}
	if begin, end, quoted := quotedText(s, at); quoted {
		return unlessHarmless(name, s, begin, end)
	}
	if strings.IndexByte("[({", s[at]) >= 0 && !strings.HasPrefix(s[at:], Mark) {
		if reference.MatchString(s[at:]) {
			return 0, 0
		}
		return at, bracketed(s, at)
	}
	begin := bareWord(s[at:min(len(s), at+longestProse)])
	if len(begin) < leastWord {
		return 0, 0
	}
	prose := strings.Contains(s[m[3]:at], ":") && !strings.ContainsAny(s[m[3]:at], `'"`)
	if prose && len(begin) < longestProse && !sureKey.MatchString(name) && !strings.ContainsAny(begin, "0123456789") {
		return 0, 0
	}
	return unlessHarmless(name, s, at, at+len(bareWord(s[at:])))
}

// bareWord is the begin of s up to what ends a word without quotes.
func bareWord(s string) string {
	if i := strings.IndexAny(s, " \t\n\f\r'\",}"); i >= 0 {
		return s[:i]
	}
	return s
}

// reference is the begin of a list or a table without a secret: one that says where it is,
// as { env = "HF_TOKEN" }, or with nothing in it.
var reference = lazyregexp.New(`^\{\s*['"]?(?:env|file)['"]?\s*[:=]|^[\[({](?i:[\s,]|true|false|none|null)*(?:[\])}]|$)`)

func unlessHarmless(name, s string, start, end int) (int, int) {
	if harmless(name, s[start:end]) {
		return 0, 0
	}
	return start, end
}

// quotedText finds the text between the quotes at at. A text within a text has backslashes
// before its quotes, \"x\"; its end has as many. A quote that is not closed ends with the line.
func quotedText(s string, at int) (start, end int, ok bool) {
	depth := backslashes(s, at)
	if start = at + depth + 1; start > len(s) || s[start-1] != '"' && s[start-1] != '\'' {
		return 0, 0, false
	}
	for end = start; end < len(s) && s[end] != '\n'; {
		n := backslashes(s, end)
		if q := end + n; q < len(s) && s[q] == s[start-1] && (depth == 0 && n%2 == 0 || depth > 0 && n <= depth) {
			if depth == 0 {
				end = q
			}
			return start, end, true
		}
		end += n + 1
	}
	end = min(end, len(s))
	return start, end, end > start && s[start] != ' ' // or it closes what began before: "password: " was asked for
}

// backslashes counts those at at.
func backslashes(s string, at int) (n int) {
	for at+n < len(s) && s[at+n] == '\\' {
		n++
	}
	return n
}

// bracketed finds the end of a list or a table, with what is in it.
func bracketed(s string, at int) int {
	depth := 0
	for i := at; i < len(s); i++ {
		switch s[i] {
		case '[', '(', '{':
			depth++
		case ']', ')', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case '\\', '"', '\'':
			if _, end, ok := quotedText(s, i); ok {
				i = end + backslashes(s, end)
			} else {
				i += max(0, backslashes(s, i)-1)
			}
		}
	}
	return len(s)
}

// optionValue is the word behind an option.
func optionValue(s string, m []int) (start, end int) {
	name := s[m[2]:m[3]]
	if !Key(name) {
		return 0, 0
	}
	return unlessHarmless(name, s, m[4], m[5])
}

// userinfo is the password of a URL, or its user's name where that is a token: long, and
// with a digit.
func userinfo(s string, m []int) (start, end int) {
	if start, end = group(m); m[2] < 0 && !strings.ContainsAny(s[start:end], "0123456789") {
		return 0, 0
	}
	return start, end
}
