package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strings"

	"github.com/profllm/profllm/pkg/regular"
)

// headSize is how much of a script is read to find its interpreter, bytes: Linux reads no more
// of a first line (BINPRM_BUF_SIZE in include/uapi/linux/binfmts.h).
const headSize = 256

// Check refuses a command that cannot run, so that this is not found only when there is
// something to tell: a program that is missing or not executable, and a script without an
// interpreter.
func (h *Hook) Check() error {
	name := h.Argv[0]
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case !strings.Contains(name, "/"):
		return fmt.Errorf("no program %q on the PATH\n\thint: name its whole path; under cron, the PATH is short", name)
	case errors.Is(err, fs.ErrNotExist):
		return errors.Unwrap(err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is not executable\n\thint: chmod +x %s", name, name)
	default: // a folder
		return fmt.Errorf("%s cannot be run: %w\n\thint: name a program", name, errors.Unwrap(err))
	}
	return checkScript(path)
}

// checkScript refuses a text file that the system cannot run. A program that this user may
// run but not read is left to the system.
func checkScript(path string) error {
	f, err := regular.OpenLarge(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, headSize)
	n, err := io.ReadFull(f, head)
	if head = head[:n]; err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil
	}
	line, script := bytes.CutPrefix(bytes.SplitN(head, []byte("\n"), 2)[0], []byte("#!"))
	words := bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' }) // a carriage return is a part
	switch {
	case !script && bytes.IndexByte(head, 0) < 0: // a program has zeros
		return fmt.Errorf("%s has no #! line, and no shell runs it\n\thint: begin it with #!/bin/sh", path)
	case !script:
	case len(words) == 0:
		return fmt.Errorf("%s names no interpreter in its first line\n\thint: begin it with #!/bin/sh", path)
	case !bytes.Contains(words[0], []byte("/")): // the system takes it for a path from the current folder
		return fmt.Errorf("%s: its interpreter %q is no path, and the system searches no PATH for it\n"+
			"\thint: begin it with #!/usr/bin/env %s", path, words[0], words[0])
	default:
		if _, err := exec.LookPath(string(words[0])); err != nil {
			return fmt.Errorf("%s: its interpreter %q cannot be run: %w\n\thint: correct its first line", path, words[0],
				errors.Unwrap(err))
		}
	}
	return nil
}
