package shell

import (
	"errors"
	"strings"
)

// Words divides a command as a POSIX shell does: by blanks, with both kinds of quotes and backslashes,
// and nothing else of a shell.
func Words(command string) ([]string, error) { return split(command, " \t\n", "\"\\$`") }

// PythonWords is Words as Python's shlex.split has them.
func PythonWords(command string) ([]string, error) { return split(command, " \t\r\n", `"\`) }

// split divides a command at blanks. escapable are the characters before which a backslash between
// double quotes is taken away.
func split(command, blanks, escapable string) ([]string, error) {
	var words []string
	var word strings.Builder
	open := false // a word has begun, which may be empty
	end := func() {
		if open {
			words = append(words, word.String())
		}
		word.Reset()
		open = false
	}
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case strings.IndexByte(blanks, c) >= 0:
			end()
		case c == '\'':
			n := strings.IndexByte(command[i+1:], '\'')
			if n < 0 {
				return nil, errors.New("a ' is not closed")
			}
			word.WriteString(command[i+1 : i+1+n])
			open, i = true, i+1+n
		case c == '"':
			n, ok := doubleQuoted(command[i+1:], escapable, &word)
			if !ok {
				return nil, errors.New(`a " is not closed`)
			}
			open, i = true, i+1+n
		case c == '\\':
			if i++; i == len(command) {
				return nil, errors.New(`nothing stands behind the last \`)
			}
			word.WriteByte(command[i])
			open = true
		default:
			word.WriteByte(c)
			open = true
		}
	}
	end()
	return words, nil
}

// doubleQuoted adds the text up to a closing quote to a word, and returns the place of that.
func doubleQuoted(text, escapable string, word *strings.Builder) (end int, ok bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i, true
		case c == '\\' && i+1 < len(text) && strings.IndexByte(escapable, text[i+1]) >= 0:
			i++
			word.WriteByte(text[i])
		default:
			word.WriteByte(c)
		}
	}
	return 0, false
}
