package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/shell"
)

// Quote writes s as one word of bash, in every locale. A carriage return is spelt out, because
// sbatch refuses a script in which one stands before a newline. Only NUL cannot be
// passed to a process and is refused.
func Quote(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("%q holds a NUL byte", s)
	}
	return strings.ReplaceAll(shell.Quote(s), "\r", `'$'\r''`), nil
}

// word writes a plan.Word as one word of bash: text quoted, the rest as the
// variables that job.env sets.
func word(w plan.Word) (string, error) {
	if s, ok := w.Literal(); ok {
		return Quote(s)
	}
	var b strings.Builder
	for _, p := range w {
		switch {
		case p.Addr != "":
			b.WriteString(`"$` + AddrVar(p.Addr) + `"`)
		case p.Port != "":
			b.WriteString(`"$` + PortVar(p.Port) + `"`)
		case p.Self:
			b.WriteString(`"$PROFLLM"`)
		case p.Env != "" || p.File != "":
			return "", fmt.Errorf("%s is a secret, which only a step's list of secrets may name", w)
		case p.Shell != "":
			return "", fmt.Errorf("%s may stand in the job's environment only", w)
		case p.Text != "":
			q, err := Quote(p.Text)
			if err != nil {
				return "", err
			}
			b.WriteString(q)
		}
	}
	return b.String(), nil
}

// AddrVar is the shell variable that holds the address of a role's first node, or of another one
// that is named role+N.
func AddrVar(role string) string {
	return strings.ReplaceAll(strings.ToUpper(role), "+", "_NODE_") + "_ADDR"
}

// PortVar is the shell variable that holds the number of a port.
func PortVar(port string) string { return strings.ToUpper(port) + "_PORT" }

// words writes plain strings, each behind a space.
func words(list []string) (string, error) {
	var b strings.Builder
	for _, s := range list {
		q, err := Quote(s)
		if err != nil {
			return "", err
		}
		b.WriteString(" " + q)
	}
	return b.String(), nil
}

// export writes one variable of the job's environment.
func export(v plan.Var) (string, error) {
	if len(v.Value) == 1 && v.Value[0].Shell != "" {
		return fmt.Sprintf(`export %s="%s"`, v.Name, v.Value[0].Shell), nil
	}
	w, err := word(v.Value)
	return "export " + v.Name + "=" + w, err
}

// lineWidth is where a command is broken into another line.
const lineWidth = 110

// given writes what gives a step its secrets: the step's own process reads them
// and becomes the command, so that no value stands in an argument.
func given(list []plan.Secret) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	words := []string{`"$PROFLLM"`, "job", "exec", `--run "$RUN"`}
	for _, x := range list {
		option := "--env=" + x.Name + "=" + x.Env
		if x.File != "" {
			option = "--file=" + x.Name + "=" + x.File
		}
		q, err := Quote(option)
		if err != nil {
			return nil, err
		}
		words = append(words, q)
	}
	return append(words, "--"), nil
}

func wordList(list []plan.Word) ([]string, error) {
	out := make([]string, len(list))
	for i, w := range list {
		q, err := word(w)
		if err != nil {
			return nil, err
		}
		out[i] = q
	}
	return out, nil
}

// wrap joins words to lines, each in another form; an option stays with its value.
func wrap(words []string, form func(string) string) []string {
	var lines []string
	line := ""
	for i := 0; i < len(words); {
		unit, option := form(words[i]), strings.HasPrefix(words[i], "-")
		i++
		for i < len(words) && option && !strings.HasPrefix(words[i], "-") && !apart(words[i-1], words[i]) {
			unit += " " + form(words[i])
			i++
		}
		switch {
		case line == "":
			line = unit
		case len(line)+1+len(unit) > lineWidth:
			lines = append(lines, line)
			line = unit
		default:
			line += " " + unit
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// apart reports whether a line may end between two words although the first is an option: it has
// its value, and a variable follows.
func apart(option, next string) bool {
	return strings.Contains(option, "=") && assignment.MatchString(next)
}

// assignment is a variable with its value.
var assignment = lazyregexp.New(`^'?[A-Za-z_][A-Za-z0-9_]*=`)

// rankWait is how long the other ranks of a role may outlive one that ended.
const rankWait = 5 * time.Second
