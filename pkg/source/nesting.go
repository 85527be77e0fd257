package source

import (
	"bytes"

	"github.com/profllm/profllm/pkg/limit"
)

// largest is the most bytes of a TOML file: 16 MiB. The parser takes many times as much.
const largest = 16 << 20

// nesting is the place where lists and tables lie too deep within each other, or a
// key has too many parts: the parser would take all of the stack for them. Brackets in
// strings and comments do not count. ok is true if there is no such place.
func nesting(name string, data []byte) (at Pos, ok bool) {
	depth, dots, line, start := 0, 0, 1, 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '\n':
			line, start, dots = line+1, i+1, 0
		case '#':
			end := bytes.IndexByte(data[i:], '\n')
			if end < 0 {
				return Pos{}, true
			}
			i += end - 1
		case '"', '\'':
			end := i + quotedLen(data[i:])
			if n := bytes.Count(data[i:end], []byte("\n")); n > 0 {
				line, start = line+n, i+bytes.LastIndexByte(data[i:end], '\n')+1
			}
			i = end - 1
		case '[', '{':
			depth, dots = depth+1, 0
		case ']', '}':
			depth = max(0, depth-1)
		case '=', ',':
			dots = 0
		case '.':
			dots++
		}
		if depth > limit.Depth || dots > limit.Depth {
			return Pos{name, line, i - start + 1}, false
		}
	}
	return Pos{}, true
}

// quotedLen is the length of the string with which data begins, as TOML 1.0 has
// them: of one or of three quotes, with or without escapes.
func quotedLen(data []byte) int {
	quote := data[:1]
	if bytes.HasPrefix(data, bytes.Repeat(quote, 3)) {
		quote = data[:3]
	}
	for i := len(quote); i < len(data); i++ {
		switch {
		case quote[0] == '"' && data[i] == '\\':
			i++
		case len(quote) == 1 && data[i] == '\n': // a mistake, which the parser names
			return i
		case bytes.HasPrefix(data[i:], quote):
			return i + len(quote)
		}
	}
	return len(data)
}
