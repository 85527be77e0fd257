package render

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// Quote writes s as one word of bash, in every locale. Only NUL cannot be
// passed to a process and is refused.
func Quote(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("%q holds a NUL byte", s)
	}
	if plainWord.MatchString(s) {
		return s, nil
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", nil
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
		case p.Env != "" || p.File != "" || p.Shell != "":
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

// AddrVar is the shell variable that holds the address of a role's first node.
func AddrVar(role string) string { return strings.ToUpper(role) + "_ADDR" }

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
	if len(v.Value) == 1 {
		switch p := v.Value[0]; {
		case p.Env != "":
			return fmt.Sprintf(`export %s="${%s:?set %s in the shell that submits}"`, v.Name, p.Env, p.Env), nil
		case p.File != "":
			q, err := Quote(p.File)
			return fmt.Sprintf("%s=$(cat %s) || exit 72\nexport %s", v.Name, q, v.Name), err
		case p.Shell != "":
			return fmt.Sprintf(`export %s="%s"`, v.Name, p.Shell), nil
		}
	}
	w, err := word(v.Value)
	return "export " + v.Name + "=" + w, err
}

// lineWidth is where a command is broken into another line.
const lineWidth = 118

// command writes one step, broken into lines.
func command(s *plan.Step) (string, error) {
	line := []string{"step", "--job-name=" + s.Name, fmt.Sprintf("--relative=%d", s.Nodes.Offset),
		fmt.Sprintf("--nodes=%d", s.Nodes.Count), fmt.Sprintf("--ntasks=%d", s.Nodes.Count), "--ntasks-per-node=1"}
	if s.Nodes.Count > 1 {
		line = append(line, fmt.Sprintf("--wait=%d", int(rankWait.Seconds())))
	}
	line = append(line, `--output="$RUN"/`+s.Log)
	var rest []string
	for _, w := range s.Srun {
		q, err := word(w)
		if err != nil {
			return "", err
		}
		rest = append(rest, q)
	}
	if len(s.Env) > 0 {
		rest = append(rest, "env")
	}
	for _, v := range s.Env {
		q, err := word(v.Value)
		if err != nil {
			return "", err
		}
		rest = append(rest, v.Name+"="+q)
	}
	for _, w := range s.Argv {
		q, err := word(w)
		if err != nil {
			return "", err
		}
		rest = append(rest, q)
	}
	var b strings.Builder
	b.WriteString(strings.Join(line, " ") + " \\\n ")
	width := 1
	for _, w := range rest {
		if width > 1 && width+1+len(w) > lineWidth {
			b.WriteString(" \\\n   ")
			width = 3
		}
		b.WriteString(" " + w)
		width += 1 + len(w)
	}
	return b.String(), nil
}

// rankWait is how long the other ranks of a role may outlive one that ended.
const rankWait = 5 * time.Second
