package redact

import (
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every name that the expressions of keys match has one of the hints, so that a name
// without one needs no expression: each alternative of them does, in its least form.
func TestKeyHints(t *testing.T) {
	for _, pattern := range []string{secretKey.String(), tokenKey.String()} {
		re, err := syntax.Parse(pattern, syntax.Perl)
		require.NoError(t, err)
		for _, text := range least(re) {
			require.True(t, containsAny(text, keyHints), text)
			require.True(t, Key(text), text)
		}
	}
}

// least are texts that an expression matches: one for each of its alternatives, with
// nothing in it that need not be there.
func least(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCharClass:
		return []string{string(re.Rune[0])}
	case syntax.OpCapture, syntax.OpPlus:
		return least(re.Sub[0])
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			all = append(all, least(sub)...)
		}
		return all
	case syntax.OpConcat:
		all := []string{""}
		for _, sub := range re.Sub {
			var longer []string
			for _, head := range all {
				for _, tail := range least(sub) {
					longer = append(longer, strings.Join([]string{head, tail}, ""))
				}
			}
			all = longer
		}
		return all
	}
	return []string{""} // optional, or an end of the text
}

// The same holds for the hints of the shapes, and for the characters that they need.
func TestRuleHints(t *testing.T) {
	for _, r := range rules {
		re, err := syntax.Parse(r.pattern.String(), syntax.Perl)
		require.NoError(t, err)
		for _, text := range least(re) {
			require.True(t, r.hinted(strings.ToLower(text)), "%s: %q", r.name, text)
			require.True(t, r.needs == "" || strings.ContainsAny(text, r.needs), "%s: %q", r.name, text)
		}
	}
}
