package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/regular"
)

// RuntimeDir is the folder below the run's of what start-up commands say of each node, and of the files that came of it.
const RuntimeDir = "runtime"

// replacement is what a start-up command wants done in the file that a variable names.
type replacement struct {
	variable string
	pairs    [][2]string // old and new texts, in order
}

// Localize gives a command the files of this node: the start-up command may have written RUNTIME/NODE.json, an object of
// variables whose values are objects of old and new texts. Each variable's file is copied with the texts replaced, and
// the variable and the command's words name the copy. Without such a file nothing changes.
func (j *Job) Localize(command, environ []string) (argv, env []string, err error) {
	node := j.Env("SLURMD_NODENAME")
	if node == "" {
		if node, err = os.Hostname(); err != nil {
			return nil, nil, err
		}
	}
	name := filepath.Join(j.Dir, RuntimeDir, node+".json")
	data, err := regular.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return command, environ, nil
	}
	if err != nil {
		return nil, nil, err
	}
	list, err := parseReplacements(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	argv, env = command, environ
	for _, r := range list {
		source := j.Env(r.variable)
		if source == "" {
			return nil, nil, fmt.Errorf("%s: the variable %s is not set", name, r.variable)
		}
		text, err := regular.ReadFile(source)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", name, r.variable, err)
		}
		ext := filepath.Ext(source)
		target := filepath.Join(j.Dir, RuntimeDir, strings.TrimSuffix(filepath.Base(source), ext)+"."+node+ext)
		for _, p := range r.pairs {
			text = bytes.ReplaceAll(text, []byte(p[0]), []byte(p[1]))
		}
		if err := replaceFile(target, text); err != nil {
			return nil, nil, err
		}
		env = append(withoutVariables(env, r.variable), r.variable+"="+target)
		argv = renamed(argv, source, target)
	}
	return argv, env, nil
}

// replaceFile writes a file that several processes of a node write alike.
func replaceFile(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// renamed is a command that names another file.
func renamed(argv []string, from, to string) []string {
	list := make([]string, len(argv))
	for i, word := range argv {
		list[i] = strings.ReplaceAll(word, from, to)
	}
	return list
}

// parseReplacements reads what a start-up command wrote, in its order.
func parseReplacements(data []byte) ([]replacement, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var list []replacement
	err := members(dec, func(variable string) error {
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
	if err == nil && dec.More() {
		err = errors.New("something stands behind the object")
	}
	return list, err
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
