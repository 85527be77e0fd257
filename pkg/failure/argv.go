package failure

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// An option is a word of a step's own command, and the option that it stands behind.
type option struct{ name, value string }

// optionsOf pairs the options of a command line with their values. The word behind
// "serve" is vLLM's model.
func optionsOf(argv []string) []option {
	var list []option
	for i, word := range argv {
		name, value, joined := strings.Cut(word, "=")
		switch {
		case i > 0 && argv[i-1] == "serve" && !strings.HasPrefix(word, "-"):
			name, value = "--model", word
		case !strings.HasPrefix(name, "--"):
			continue
		case !joined && i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "--"):
			value = argv[i+1]
		}
		list = append(list, option{name, value})
	}
	return list
}

// told is where a program prints what it was told: vLLM's server, vLLM's client and
// everything else that prints argparse's namespace, SGLang.
var told = []string{"non-default args: ", "Namespace(", "ServerArgs("}

// pair is a name with its value in a Python dict, a namespace or a dataclass.
var pair = lazyregexp.New(`['"]?(\w+)['"]?\s*[=:]\s*(?:'([^']*)'|"([^"]*)"|([^\s,'"(){}\[\]]+))`)

// toldOptions reads the options that a line repeats.
func toldOptions(line string) []option {
	var list []option
	for _, m := range pair.FindAllStringSubmatch(line, -1) {
		if value := m[2] + m[3] + m[4]; value != "None" {
			list = append(list, option{"--" + strings.ReplaceAll(m[1], "_", "-"), value})
		}
	}
	return list
}

// ordinary are values that a message may quote without meaning the option.
var ordinary = []string{"auto", "true", "false", "none", "vllm", "sglang", "random", "generate", "localhost", "0.0.0.0",
	"127.0.0.1"}

// blamed returns the option that a message speaks of: it quotes the option's value, or
// names the option itself.
func blamed(message string, options []option) (option, bool) {
	for _, quotes := range []bool{true, false} {
		for _, o := range options {
			if o.in(message, quotes) {
				return o, true
			}
		}
	}
	return option{}, false
}

// in reports whether a message speaks of the option: by its value in quotes, or by
// its name or a value that is no ordinary word.
func (o option) in(message string, quotes bool) bool {
	if quotes {
		return len(o.value) > 1 && !slices.Contains(ordinary, strings.ToLower(o.value)) &&
			slices.ContainsFunc([]string{"'", `"`, "`"},
				func(q string) bool { return strings.Contains(message, q+o.value+q) })
	}
	name := strings.TrimLeft(o.name, "-")
	snake := strings.ReplaceAll(name, "-", "_")
	return hasWord(message, o.name) || strings.Contains(snake, "_") && hasWord(message, snake) ||
		len(o.value) > 3 && isName.MatchString(o.value) && !slices.Contains(ordinary, strings.ToLower(o.value)) &&
			hasWord(message, o.value)
}

// isName tells a value that is worth looking for in plain text from a number.
var isName = lazyregexp.New(`^/\S+$|^[A-Za-z][\w.-]*[\d_/.-][\w./-]*$`)

// hasWord reports whether a text holds a word that no word character touches.
func hasWord(text, word string) bool {
	for at := 0; word != ""; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(word)
		if (from == 0 || !isWordByte(text[from-1])) && (to == len(text) || !isWordByte(text[to])) {
			return true
		}
		at = to
	}
	return false
}

func isWordByte(b byte) bool {
	return b == '_' || b == '-' || b == '/' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// ofModel are the options whose values are models, not settings.
var ofModel = []string{"--model", "--model-tag", "--tokenizer", "--served-model-name", "--model-path",
	"--tokenizer-path", "--hf-config-path", "--lora-modules"}
