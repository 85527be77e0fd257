package failure

import (
	"bytes"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// launchers are what launchers and containers put in front of every line: mpirun, torchrun,
// docker compose, kubectl, the journal, and mail that quotes a log. Docker wraps each line
// into JSON.
var launchers = []*lazyregexp.Regexp{
	lazyregexp.New(`^\[\d+,\d+\]<std(?:out|err)>: ?`),
	lazyregexp.New(`^\[default\d+\]: ?`),
	lazyregexp.New(`^[a-z][\w.-]*-\d+ +\| ?`),
	lazyregexp.New(`^\[pod/[\w./-]+\] ?`),
	lazyregexp.New(`^(?:\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:?\d\d) \S+ [\w.@-]+\[\d+\]: ?`),
	lazyregexp.New(`^> ?`),
	dockerLine,
}

var (
	dockerLine = lazyregexp.New(`^\{"log": ?"`)
	dockerEnd  = lazyregexp.New(`(?:\\r)?(?:\\n)?", ?"stream": ?"std(?:out|err)".*$`)
	unescaped  = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\t`, "\t", `\r`, "\r", `\u003c`, "<", `\u003e`, ">",
		`\u0026`, "&", `\u001b`, "\x1b")
)

// mostSampled is how many lines tell whether a log has such a prefix.
const mostSampled = 50

// launcherOf returns the prefix that nine of ten lines at the front of a log have, nil if
// there is none. A program that prints such lines among others keeps them.
func launcherOf(text []byte) *lazyregexp.Regexp {
	lines, had := 0, make([]int, len(launchers))
	for rest := text; len(rest) > 0 && lines < mostSampled; lines++ {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		for i, re := range launchers {
			if re.Match(line) {
				had[i]++
			}
		}
	}
	for i, n := range had {
		if n >= 2 && n*10 >= lines*9 {
			return launchers[i]
		}
	}
	return nil
}

// unwrap takes the launcher's prefix off every line.
func (s *scanner) unwrap(text []byte) []byte {
	if !s.sampled {
		s.sampled, s.launcher = true, launcherOf(text)
	}
	if s.launcher == nil {
		return text
	}
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		line, rest, more := bytes.Cut(text, []byte("\n"))
		text = rest
		prefix := s.launcher.FindIndex(line)
		if prefix != nil {
			line = line[prefix[1]:]
			if s.launcher == dockerLine {
				line = []byte(unescaped.Replace(string(dockerEnd.ReplaceAll(line, nil))))
			}
		}
		if out = append(out, line...); more {
			out = append(out, '\n')
		}
	}
	return out
}
