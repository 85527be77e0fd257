package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/regular"
)

// Placeholders are names in braces that a file of the user's may have, and what they stand for.
type Placeholders struct {
	Variable string // names the file; "": there is none
	Values   map[string]string
}

// ParsePlaceholders reads values that are written as NAME=TEXT.
func ParsePlaceholders(variable string, values []string) (p Placeholders, err error) {
	p = Placeholders{Variable: variable, Values: map[string]string{}}
	for _, v := range values {
		name, text, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return p, fmt.Errorf("%q is no NAME=TEXT", v)
		}
		p.Values[name] = text
	}
	return p, nil
}

// fill fills the placeholders in, in the copy of their file. Where a start-up command asked for
// none, there is one now. A variable that is empty names no file.
func (j *Job) fill(copies []*fileCopy, p Placeholders) ([]*fileCopy, error) {
	if p.Variable == "" || j.Env(p.Variable) == "" {
		return copies, nil
	}
	name := j.Env(p.Variable)
	at := slices.IndexFunc(copies, func(c *fileCopy) bool { return c.source == name })
	if at < 0 {
		text, err := regular.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Variable, err)
		}
		at, copies = len(copies), append(copies, &fileCopy{source: name, variables: []string{p.Variable}, text: text})
	}
	text, err := p.filled(name, string(copies[at].text))
	copies[at].text = []byte(text)
	return copies, err
}

// placeholder is a name in braces. In two pairs of braces it is the same text in one pair, and
// behind a dollar sign it is a shell's. All other braces are YAML's.
var placeholder = lazyregexp.New(`\$?\{\{[A-Za-z_]\w*\}\}|\$?\{[A-Za-z_]\w*\}`)

// filled is a text with its placeholders filled in. An unknown one is an error with its line, but
// in a comment.
func (p Placeholders) filled(name, text string) (string, error) {
	var errs []error
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		comment := strings.HasPrefix(strings.TrimSpace(line), "#")
		lines[i] = placeholder.ReplaceAllStringFunc(line, func(m string) string {
			if strings.HasPrefix(m, "$") {
				return m
			}
			if strings.HasPrefix(m, "{{") {
				return m[1 : len(m)-1]
			}
			value, known := p.Values[m[1:len(m)-1]]
			if known {
				return value
			}
			if !comment {
				errs = append(errs, fmt.Errorf("%s:%d: unknown placeholder %s\n\thint: known: %s; write {%s} for braces",
					name, i+1, m, strings.Join(slices.Sorted(maps.Keys(p.Values)), ", "), m))
			}
			return m
		})
	}
	return strings.Join(lines, ""), errors.Join(errs...)
}
