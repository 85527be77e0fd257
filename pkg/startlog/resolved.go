package startlog

import (
	"math"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// Bounds of what is kept of an engine's own words about its options.
const (
	mostOptions = 512
	longestText = 512 // of one value; a longer one is cut
)

// resolvedForm is how vLLM begins the line with what its options came to, since 0.6.0: a list of
// name=value in Python's words.
var resolvedForm = lazyregexp.New(`^Initializing an? (?:V1 )?LLM engine \(v[^)]{1,64}\) with config: `)

// Resolved is what the engine said that its options came to, by their names in its configuration;
// nil if no log says so. A value is a number, a truth value, nil or a text: of what is none of the
// first three, Python's own words.
func (s *Start) Resolved() map[string]any { return s.resolved }

// resolve reads the options in a message.
func (s *Start) resolve(text string) {
	begin := resolvedForm.FindStringIndex(text)
	if begin == nil || s.resolved != nil {
		return // every engine of an instance has the same
	}
	s.resolved = options(text[begin[1]:])
}

// options are those of a list, nil for none.
func options(list string) map[string]any {
	found := map[string]any{}
	for _, item := range items(list) {
		name, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		if ok && optionName.MatchString(name) && len(found) < mostOptions {
			found[name] = python(value)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

var optionName = lazyregexp.New(`^[a-z_][a-z0-9_]{0,63}$`)

// items parts a list at its commas, but not within brackets or quotes. The last item of a list that
// was cut short is left out.
func items(list string) (out []string) {
	depth, begin := 0, 0
	var quote byte
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte("([{<", c) >= 0:
			depth++
		case strings.IndexByte(")]}>", c) >= 0:
			depth--
		case c == ',' && depth <= 0:
			out, begin = append(out, list[begin:i]), i+1
		}
	}
	if depth <= 0 && quote == 0 {
		out = append(out, list[begin:])
	}
	return out
}

// python is a value in Python's words.
func python(word string) any {
	word = strings.TrimSuffix(strings.TrimSpace(word), ",")
	switch word {
	case "None":
		return nil
	case "True", "False":
		return word == "True"
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n
	}
	if x, err := strconv.ParseFloat(word, 64); err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
		return x
	}
	if n := len(word); n >= 2 && (word[0] == '\'' || word[0] == '"') && word[n-1] == word[0] {
		word = word[1 : n-1]
	}
	if len(word) > longestText {
		word = strings.ToValidUTF8(word[:longestText], "") + "…"
	}
	return word
}
