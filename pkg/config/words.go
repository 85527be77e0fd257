package config

import "fmt"

// SplitWords splits s as a POSIX shell splits words, with quotes and
// backslashes but without expansion of any kind.
func SplitWords(s string) ([]string, error) {
	var words []string
	var word []rune
	inWord, quote, escaped := false, rune(0), false
	for _, r := range s {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' && r != '$' && r != '`' {
				word = append(word, '\\')
			}
			word, escaped = append(word, r), false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word = append(word, r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if inWord {
				words = append(words, string(word))
			}
			word, inWord = nil, false
		default:
			word, inWord = append(word, r), true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("a quote is not closed in %q", s)
	}
	if inWord {
		words = append(words, string(word))
	}
	return words, nil
}
