package failure

import (
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

var (
	// vLLM's prefix: "(Worker_TP3 pid=41822) ERROR 11-21 10:14:07 [core.py:1] "
	process = lazyregexp.New(`^\(([\w-]+)(?:[ =][^)]*)?\) `)
	level   = lazyregexp.New(`^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?`)
	// srun and slurmstepd write into the middle of what a task prints
	slurms = lazyregexp.New(`^(?:srun|slurmstepd(?:-[\w.-]+)?): `)
	worker = lazyregexp.New(`^\(\w*?Worker_((?:[A-Z]{2,3}\d+_?)+)|\[rank(\d+)\]`)
	// the last line of a traceback, or one of a chain
	raised = lazyregexp.New(`^(?:(?:[A-Za-z_]\w*\.)+_?[A-Z]\w*|_?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout))(?::|$)`)
	// a client's report of failed requests
	errorN = lazyregexp.New(`^Error \d+: `)
)

func rankOf(line string) string {
	m := worker.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	return strings.TrimRight(m[1]+m[2], "_")
}

// split takes the prefix of vLLM and Ray off a line, and the margin of an exception
// group, and returns the process that the prefix names.
func split(line string) (proc, text string) {
	if m := process.FindStringSubmatch(line); m != nil {
		proc, line = m[1], line[len(m[0]):]
	} else if slurms.MatchString(line) {
		proc = "slurm"
	}
	line = line[len(level.FindString(line)):]
	return proc, line[len(group.FindString(line)):]
}

// unitHead returns the number of the line with which the unit of several lines
// begins that the given line belongs to, 0 if it stands alone: a
// traceback with the lines under its last one, a refused option with the reason
// under it, a client's list of failed requests, or pyxis with enroot's log.
func unitHead(line string, before []string, lineNo int) int {
	switch {
	case strings.Contains(line, "pyxis:"):
		head := lineNo
		for i := 0; i < len(before) && strings.Contains(before[i], "pyxis:"); i++ {
			head = lineNo - i - 1
		}
		return head
	case strings.Contains(line, allFailed), strings.Contains(line, ": error: argument "):
		return lineNo
	case strings.Contains(line, "[type="):
		for i := 0; i < min(len(before), reasonLines); i++ {
			if strings.Contains(before[i], ": error: argument ") {
				return lineNo - i - 1
			}
		}
	case quoted(line, before):
		for i, b := range before {
			if strings.Contains(b, allFailed) {
				return lineNo - i - 1
			}
		}
	}
	return tracebackHead(line, before, lineNo)
}

const (
	// allFailed is what a client prints above its list of failed requests.
	allFailed = "All requests failed. This is likely due to a misconfiguration"
	// reasonLines is how far below a refused option its reason may stand.
	reasonLines = 12
)

// tracebackHead returns the number of the line with which the traceback
// begins that ends in the given line, 0 if there is none. Chained tracebacks
// are one; lines of other processes in between are passed over.
func tracebackHead(line string, before []string, lineNo int) int {
	proc, _ := split(line)
	head, inside := 0, true
	for i, b := range before {
		p, text := split(b)
		if p != proc {
			continue
		}
		switch {
		case text == "":
		case strings.HasPrefix(text, "During handling of the above"),
			strings.HasPrefix(text, "The above exception was"):
			inside = true // of the traceback in front of this one
		case !inside:
			return head
		case strings.HasPrefix(text, "Traceback (most recent call last)"):
			head, inside = lineNo-i-1, false
		case text[0] == ' ', text[0] == '\t', raised.MatchString(text):
		default:
			return head
		}
	}
	return head
}

// quoted reports whether a line stands in a client's "Error N:" block.
func quoted(line string, before []string) bool {
	for _, b := range append([]string{line}, before...) {
		switch {
		case errorN.MatchString(b):
			return true
		case strings.HasPrefix(b, "===="), strings.HasPrefix(b, "tip: "):
			return false
		}
	}
	return false
}

// A frame is a place in a program, as a traceback shows it.
type frame struct{ file, line, source string }

// mostFrames bounds how far up a traceback is read.
const mostFrames = 60

var (
	pythonFrame = lazyregexp.New(`^\s+File "([^"]+)", line (\d+)`)
	richFrame   = lazyregexp.New(`^│ (\S+\.py):(\d+) in \w+`)
	// group is what Python puts before the lines of an exception in a group.
	group = lazyregexp.New(`^ {2,}[|+] `)
)

// frames returns the frames of the traceback whose last line stands below the
// given lines, innermost first.
func frames(proc string, before []string) []frame {
	var list []frame
	below := ""
	for _, b := range before {
		p, text := split(b)
		if p != proc {
			continue
		}
		m := pythonFrame.FindStringSubmatch(text)
		if m == nil {
			m = richFrame.FindStringSubmatch(text)
		}
		switch {
		case m != nil:
			list = append(list, frame{m[1], m[2], below})
			below = ""
		case strings.Trim(text, " ~^│╰╯─") != "":
			below = strings.TrimSpace(text)
		}
		if isTraceback(text) || len(list) == mostFrames {
			break
		}
	}
	return list
}

// tracebackLine begins a traceback.
const tracebackLine = "Traceback (most recent call last):"

// isTraceback reports whether a line begins a traceback: nothing has been said yet.
func isTraceback(text string) bool {
	return strings.Contains(text, tracebackLine[:len(tracebackLine)-1])
}

// rule is a line that only separates: a banner, a row of dashes, the edge of a box.
var rule = lazyregexp.New(`^[\s\-=*#_~─━═╭╮╰╯┌┐└┘│┃|+.]*$|^[\-=*#]{3,}.*[\-=*#]{3,}$|^\+-\+?-+ \d+ -+$`)

// isHeader reports whether a line only announces or separates what is said elsewhere.
func isHeader(line string) bool {
	_, text := split(line)
	return isTraceback(text) || rule.MatchString(strings.TrimSpace(text))
}
