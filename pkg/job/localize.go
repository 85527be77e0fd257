package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// RuntimeDir is the folder below the run's of what start-up commands say of each node, and of the
// files that came of it.
const RuntimeDir = "runtime"

// replacement is what a start-up command wants done in the file that a variable names.
type replacement struct {
	variable string
	pairs    [][2]string // old and new texts, in order
}

// Localize gives a command the files of this node: the start-up command may have written
// RUNTIME/NODE.json, an object of variables whose values are objects of old and new texts. Each
// variable's file is copied with the texts replaced, and the variable and the command's words name
// the copy. Then placeholders are filled in, in a copy as well. Without either nothing changes.
func (j *Job) Localize(command, environ []string, p Placeholders) (argv, env []string, err error) {
	node := j.Env("SLURMD_NODENAME")
	if node == "" {
		if node, err = os.Hostname(); err != nil {
			return nil, nil, err
		}
	}
	copies, err := j.asked(filepath.Join(j.Dir, RuntimeDir, node+".json"))
	if err == nil {
		copies, err = j.fill(copies, p)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(copies) > 0 {
		if err := os.MkdirAll(filepath.Join(j.Dir, RuntimeDir), 0o755); err != nil {
			return nil, nil, err
		}
	}
	argv, env = command, environ
	for _, c := range copies {
		target := filepath.Join(j.Dir, RuntimeDir, node+"."+c.variables[0]+filepath.Ext(c.source))
		if err := run.WriteFile(target, c.text, 0o644); err != nil {
			return nil, nil, err
		}
		for _, variable := range c.variables {
			env = append(withoutVariables(env, variable), variable+"="+target)
		}
		argv = renamed(argv, c.source, target)
	}
	return argv, env, nil
}

// fileCopy is the text of a file with everything replaced, and the variables that name the file.
type fileCopy struct {
	source    string
	variables []string
	text      []byte
}

// asked are the copies that the start-up command asks for in a file of that name, none without one.
func (j *Job) asked(name string) ([]*fileCopy, error) {
	data, err := regular.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := parseReplacements(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return j.copies(name, list)
}

// copies makes one copy of each file, also where several variables name it.
func (j *Job) copies(name string, list []replacement) ([]*fileCopy, error) {
	var copies []*fileCopy
	for _, r := range list {
		source := j.Env(r.variable)
		if source == "" {
			return nil, fmt.Errorf("%s: the variable %s is not set", name, r.variable)
		}
		at := slices.IndexFunc(copies, func(c *fileCopy) bool { return c.source == source })
		if at < 0 {
			text, err := regular.ReadFile(source)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", name, r.variable, err)
			}
			at, copies = len(copies), append(copies, &fileCopy{source: source, text: text})
		}
		c := copies[at]
		if !slices.Contains(c.variables, r.variable) {
			c.variables = append(c.variables, r.variable)
		}
		for _, p := range r.pairs {
			c.text = bytes.ReplaceAll(c.text, []byte(p[0]), []byte(p[1]))
		}
	}
	return copies, nil
}

// renamed is a command that names another file, as a word or behind the last = or @ of one.
func renamed(argv []string, from, to string) []string {
	list := slices.Clone(argv)
	for i, word := range list {
		head, ok := strings.CutSuffix(word, from)
		if ok && (head == "" || strings.HasSuffix(head, "=") || strings.HasSuffix(head, "@")) {
			list[i] = head + to
		}
	}
	return list
}

// variableName is what a shell takes as the name of a variable.
var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parseReplacements reads what a start-up command wrote, in its order.
func parseReplacements(data []byte) ([]replacement, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var list []replacement
	err := members(dec, func(variable string) error {
		if !variableName.MatchString(variable) {
			return fmt.Errorf("%q is no name of a variable", variable)
		}
		r := replacement{variable: variable}
		err := members(dec, func(old string) error {
			t, err := dec.Token()
			text, ok := t.(string)
			if err == nil && (!ok || old == "") {
				err = fmt.Errorf("%s: each old text must have a new text", variable)
			}
			r.pairs = append(r.pairs, [2]string{old, text})
			return err
		})
		list = append(list, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the object")
	}
	return list, nil
}

// members reads an object, and calls each for the value of a key.
func members(dec *json.Decoder, each func(key string) error) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New("not an object"), err)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		if err := each(key); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}
