package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// secretKey is how the name of a setting ends whose value is a secret, in lower
// case, with "_" between its words.
var secretKey = lazyregexp.New(`(?:^|_)(?:` +
	`(?:api|access|secret|private|auth|account|signing|encryption|shared|ssh|session|master|service|subscription|license|master_session)_?keys?|` +
	`secrets?|secret_access_key|passphrases?|pwd|pass|credentials?|creds|` +
	`authorization|authentication|auth|bearer|jwt|cookies?|` +
	`(?:api|auth|access|refresh|bearer|hf|hub|secret)_?tokens|(?:auth|access|refresh|bearer|api|hf)token)$|passw(?:or)?ds?$`)

// tokenKey is a name that ends with "token". Most are secrets, but models have
// tokens too.
var (
	tokenKey  = lazyregexp.New(`(?:^|_)token$`)
	modelsKey = lazyregexp.New(`(?:^|_)(?:eos|bos|pad|unk|mask|sep|cls|image|video|audio|stop|start|end|think|reasoning|thinking|tool|tool_call|special|placeholder|next|first|last|per|output|input|prompt|new|each|one|every|any|begin|prefix|suffix|decoder_start|ignore|blank|fim|stream|inter)_token$`)
)

// words splits a name at its capitals: apiKey, HFToken.
var words = lazyregexp.New(`([a-z0-9])([A-Z])`)

// numbered is the end of a name of which there are several: api_key_2.
var numbered = lazyregexp.New(`_*[0-9]+$`)

// keyName is a name in lower case, with "_" between its words and without a number at its end.
func keyName(name string) string {
	name = words.ReplaceAllString(strings.TrimLeft(name, "-"), "${1}_${2}")
	name = strings.NewReplacer("-", "_", ".", "_", " ", "_", ":", "_").Replace(strings.ToLower(strings.TrimSpace(name)))
	return numbered.ReplaceAllString(name, "")
}

// keyHints are in every name that secretKey or tokenKey match: most names have none of
// them, and need no expression.
var keyHints = []string{"key", "secret", "pass", "pwd", "cred", "auth", "bearer", "jwt", "cookie", "token"}

// Key reports whether the value of a setting, an option, a variable or a header of
// that name is a secret: api_key, --hf-token, X-Api-Key. Names that only look alike
// are none: tokenizer, max_tokens, eos_token, api_key_file.
func Key(name string) bool {
	if !containsAny(strings.ToLower(name), keyHints) {
		return false
	}
	return secretName(name) || secretName(lastWord.FindString(name))
}

// lastWord is what Line takes for the name in front of a value.
var lastWord = lazyregexp.New(`(?i)[a-z0-9_.-]*$`)

func secretName(name string) bool {
	key := keyName(name)
	return sureKey.MatchString(name) || secretKey.MatchString(key) ||
		tokenKey.MatchString(key) && !modelsKey.MatchString(key)
}

// number is a value that is none of a secret's, whatever its name: the setting auth
// may be "none" and token "3". A number of more digits may be a PIN.
var number = lazyregexp.New(`^(?:[0-9.]{0,2}|(?i:true|false|none|null|auto|basic|bearer))$`)

// A count of tokens may have any number of digits, under a name that is otherwise a secret's:
// num_token.
var (
	countKey = lazyregexp.New(`(?:^|_)(?:num|max|min|total)_token$`)
	digits   = lazyregexp.New(`^[0-9]+$`)
)

// harmless reports whether a value under the name of a secret is none.
func harmless(name, value string) bool {
	return number.MatchString(value) || digits.MatchString(value) && countKey.MatchString(keyName(name))
}

// Setting returns the text of a setting without what is secret in it: all of it, by
// the name of the key, or what has the shape of a secret. Text that is JSON is
// looked through by its own keys.
func Setting(key, text string) string {
	switch {
	case !Key(key):
		return inner(text)
	case text == Mark || harmless(key, text):
		return text
	}
	return Mark
}

// inner is Line, with the keys of JSON and of one header looked at.
func inner(text string) string {
	if trimmed := strings.TrimSpace(text); len(trimmed) > 1 && (trimmed[0] == '{' || trimmed[0] == '[') {
		in := json.NewDecoder(strings.NewReader(trimmed))
		in.UseNumber()
		var v any
		if in.Decode(&v) == nil && in.Decode(&struct{}{}) == io.EOF {
			out, changed := tree("", v)
			// With a mark in it, and written as encode writes it, it comes from here: Line
			// would take a list of marks for a secret.
			if changed || strings.Contains(trimmed, Mark) && encode(out) == trimmed {
				return encode(out)
			}
		}
	}
	if name, value, ok := strings.Cut(text, ":"); ok && header.MatchString(name) && Key(name) && value != "" &&
		value[0] != '/' {
		return name + ": " + Mark
	}
	return Line(text)
}

// header is the name of a header: one word.
var header = lazyregexp.New(`^[A-Za-z][A-Za-z-]*$`)

func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil { // it was decoded just now
		return Mark
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Value does for decoded JSON or TOML what Setting does for text: a tree of
// map[string]any, []any and values, of which it returns a copy. Below a secret
// key every text is a secret, and every number of more than two digits. Truth values stay.
func Value(key string, v any) any {
	if list, ok := v.([]string); ok {
		out := make([]string, len(list))
		for i, text := range list {
			out[i] = Setting(key, text)
		}
		return out
	}
	out, _ := tree(key, v)
	return out
}

// Table is Value of a table.
func Table(v map[string]any) map[string]any {
	out, _ := Value("", v).(map[string]any)
	return out
}

// tree returns v without secrets, and whether something was taken out.
func tree(key string, v any) (out any, changed bool) {
	switch x := v.(type) {
	case map[string]any:
		if x == nil {
			return x, false
		}
		table := make(map[string]any, len(x))
		for _, k := range slices.Sorted(maps.Keys(x)) {
			below := k
			if Key(key) && !isReference(x) {
				below = key
			}
			name := Line(k)
			for _, taken := table[name]; taken; _, taken = table[name] {
				name += Mark // two secrets as keys: neither value is lost
			}
			var c bool
			table[name], c = tree(below, x[k])
			changed = changed || c || name != k
		}
		return table, changed
	case []any:
		list, follows := make([]any, len(x)), false
		for i, y := range x {
			var c bool
			if word, isText := y.(string); isText && !Key(key) { // perhaps of a command line
				list[i] = wordAfter(follows, word)
				c, follows = list[i] != y, expects(word, follows)
			} else {
				list[i], c = tree(key, y)
			}
			changed = changed || c
		}
		return list, changed
	case string:
		out := Setting(key, x)
		return out, out != x
	case bool, nil:
	default: // a number, of whatever type
		if Key(key) && !harmless(key, fmt.Sprint(v)) {
			return Mark, true
		}
	}
	return v, false
}

// isReference reports whether a table says where a secret is, as { env = "HF_TOKEN" }, or nothing.
func isReference(table map[string]any) bool {
	where := len(table) == 0
	for k := range table {
		if k != "env" && k != "file" && k != "for" {
			return false
		}
		where = where || k != "for"
	}
	return where
}
