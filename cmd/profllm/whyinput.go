package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/profllm/profllm/pkg/regular"
)

// headBytes is how much of an input is looked at to tell text from other data.
const headBytes = 4096

// checkLogs refuses logs that are no text, and logs that are all empty, so that "no failure
// found" is not said of them. It returns the paths that may be logs. Empty files beside others
// are usual. Named pipes can be read once only and are left to the reader.
func (a *app) checkLogs(paths []string) (logs []string, err error) {
	var empty, wrong []error
	for _, path := range paths {
		name, head, known := path, "", false
		if path == "-" {
			in := bufio.NewReaderSize(a.stdin, headBytes)
			front, err := in.Peek(headBytes)
			a.stdin, name = in, "stdin"
			head, known = string(front), err == nil || errors.Is(err, io.EOF)
		} else {
			head, known = headOf(path)
		}
		if known && !isText(head) {
			wrong = append(wrong, noLog(name, "this is no text"))
			continue
		}
		if known && head == "" {
			empty = append(empty, noLog(name, "the input is empty"))
		}
		logs = append(logs, path)
	}
	if len(empty) == len(logs) {
		logs, wrong = nil, append(empty, wrong...)
	}
	return logs, fail(exitUsage, errors.Join(wrong...))
}

func noLog(name, why string) error {
	return fmt.Errorf("%s: %s\n\thint: name a log, or a run directory", name, why)
}

// headOf is the beginning of a regular file; false for what is none or cannot be read.
func headOf(path string) (string, bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	f, err := regular.OpenLarge(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	var head strings.Builder
	_, err = io.CopyN(&head, f, headBytes)
	return head.String(), err == nil || errors.Is(err, io.EOF)
}

// isText reports whether data that begins so may be a log: text, of which at most a tenth of the
// characters are none, or packed by xz. Zeros do not count: they are left by writes that a crash
// cut short.
func isText(head string) bool {
	if strings.HasPrefix(head, "\xfd7zXZ\x00") {
		return true
	}
	bad, all := 0, 0
	for len(head) > 0 {
		r, n := utf8.DecodeRuneInString(head)
		if r == utf8.RuneError && n == 1 && !utf8.FullRuneInString(head) {
			break // the rest of the character was not read
		}
		head = head[n:]
		if r == 0 {
			continue
		}
		all++
		if r == utf8.RuneError && n == 1 || unicode.IsControl(r) && !unicode.IsSpace(r) && r != '\b' && r != '\x1b' {
			bad++
		}
	}
	return bad*10 <= all
}
