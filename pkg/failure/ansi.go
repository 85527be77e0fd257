package failure

import "bytes"

// stripANSI removes terminal sequences in place: colours, cursor movements,
// titles. A lone escape byte stays.
func stripANSI(text []byte) []byte {
	at := bytes.IndexByte(text, 0x1b)
	if at < 0 {
		return text
	}
	out := text[:at]
	for at < len(text) {
		if n := sequence(text[at:]); n > 0 {
			at += n
			continue
		}
		end := len(text)
		if n := bytes.IndexByte(text[at+1:], 0x1b); n >= 0 {
			end = at + 1 + n
		}
		out = append(out, text[at:end]...)
		at = end
	}
	return out
}

// sequence is the length of the terminal sequence with which text begins, 0 if
// there is none.
func sequence(text []byte) int {
	if len(text) < 2 || text[0] != 0x1b {
		return 0
	}
	switch c := text[1]; {
	case c == '[':
		i := 2
		for i < len(text) && text[i] >= 0x20 && text[i] <= 0x3f {
			i++
		}
		if i < len(text) && text[i] >= '@' && text[i] <= '~' {
			return i + 1
		}
	case c == ']': // a title: up to BEL, on one line
		if i := bytes.IndexAny(text, "\a\n"); i > 0 && text[i] == '\a' {
			return i + 1
		}
	case c >= '@' && c <= '_':
		return 2
	}
	return 0
}
