package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/source"
)

// FilesDir is the folder below the run directory that holds the files of a test.
const FilesDir = "files"

// File is a text that the job writes into FilesDir before its servers start, so that every
// node and every container finds it at one path.
type File struct {
	Name string `json:"name"` // a path element
	Text Word   `json:"text"`
}

var fileName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.+=@-]*$`)

// files reads [files]. Run where roles and ports are known, since the texts can name them.
func (p *Plan) files(t *source.Table) error {
	var c source.Complaints
	for _, name := range t.Keys() {
		v := t.Get(name)
		text, ok := v.Any.(string)
		switch {
		case !fileName.MatchString(name):
			c.Add(source.Errorf(t.KeyPos(name), "files: %q is not the name of a file", name).
				Hintf("use letters, digits and ._+=@-, without a folder"))
		case slices.ContainsFunc(p.Files, func(f File) bool { return f.Name == name }):
			c.Add(source.Errorf(t.KeyPos(name), "files.%s: the test has that file already", name).Hintf("use another name"))
		case !ok:
			c.Add(source.Errorf(v.Pos, "files.%s must be a string, the content of the file, not %s", name, v.Describe()))
		default:
			p.Files = append(p.Files, File{name, Text(text)})
		}
	}
	return c.Err()
}

// FilePath is where the file of a name is, on every node and in every container.
func (p *Plan) FilePath(name string) string { return path.Join(p.Dir, FilesDir, name) }

// mark is what definitions write for something that only the plan or the job knows: the
// address of a role's first node, a port, the path of a file of [files].
//
// What a shell writes in this form has a sign or a digit behind the colon: ${port:-8000}.
var mark = lazyregexp.New(`\$\{(addr|port|path):([A-Za-z_][A-Za-z0-9_.+=@ -]*)\}`)

// isMarked reports whether a text has a mark.
func isMarked(s string) bool { return mark.MatchString(s) }

// strict reports whether a mark that names nothing is a mistake. In a test that has neither files
// nor helpers, it is shell text, such as ${path:offset}.
func (p *Plan) strict() bool {
	return len(p.Files) > 0 || slices.ContainsFunc(p.Roles, func(r Role) bool { return r.Helper })
}

// fillMarks puts into files, the environment and the commands of roles and clients what
// their marks stand for. A variable of the job with a mark becomes one of each step, because
// addresses and ports are known only after the job's environment is set.
func (p *Plan) fillMarks(in Input) error {
	var c source.Complaints
	for i := range p.Files {
		f := &p.Files[i]
		text, err := p.filled(f.Text)
		c.Add(at(in.Test.Files.PosOf(f.Name), "files."+f.Name, err))
		f.Text = text
	}
	var marked []Var
	p.Env = slices.DeleteFunc(p.Env, func(v Var) bool {
		s, _ := v.Value.Literal()
		if !isMarked(s) {
			return false
		}
		value, err := p.filled(v.Value)
		if text, ok := value.Literal(); err == nil && ok && text == s {
			return false // shell text
		}
		pos := in.Test.Env.PosOf(v.Name)
		if !in.Test.Env.Has(v.Name) {
			pos = in.System.GlobalEnvVars.PosOf(v.Name)
		}
		c.Add(at(pos, v.Name, err))
		marked = append(marked, Var{v.Name, value})
		return true
	})
	for _, s := range p.steps() {
		for i := range s.Argv {
			word, err := p.filled(s.Argv[i])
			c.Add(at(in.Test.Pos, s.Name, err))
			s.Argv[i] = word
		}
		for _, v := range marked { // what a step sets itself wins, as over the job's environment
			if !slices.ContainsFunc(s.Env, func(own Var) bool { return own.Name == v.Name }) {
				s.Env = append(slices.Clone(s.Env), v)
			}
		}
	}
	return c.Err()
}

// at gives an error a position and says what it is of.
func at(pos source.Pos, what string, err error) error {
	if err == nil {
		return nil
	}
	return source.Errorf(pos, "%s: %v", what, err).
		Hintf("${addr:ROLE}, ${port:PORT} and ${path:FILE} are filled in by profllm")
}

// filled is a word with the places that its marks name.
func (p *Plan) filled(w Word) (Word, error) {
	var out Word
	for _, part := range w {
		if part.Text == "" || !isMarked(part.Text) {
			out = append(out, part)
			continue
		}
		rest := part.Text
		for {
			m := mark.FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			place, err := p.place(rest[m[2]:m[3]], rest[m[4]:m[5]])
			switch {
			case err == nil:
				out = append(Concat(out, rest[:m[0]]), place)
			case p.strict():
				return w, err
			default:
				out = Concat(out, rest[:m[1]])
			}
			rest = rest[m[1]:]
		}
		out = Concat(out, rest)
	}
	return out, nil
}

// place is what a mark stands for.
func (p *Plan) place(kind, name string) (Part, error) {
	var known []string
	switch kind {
	case "addr":
		if p.Role(name) != nil {
			return Addr(name), nil
		}
		for i := range p.Roles {
			known = append(known, p.Roles[i].Name)
		}
	case "port":
		if _, ok := p.PortNamed(name); ok {
			return PortNumber(name), nil
		}
		for _, port := range p.Ports {
			known = append(known, port.Name)
		}
	default:
		for _, f := range p.Files {
			if f.Name == name {
				return Part{Text: p.FilePath(name)}, nil
			}
			known = append(known, f.Name)
		}
	}
	if len(known) == 0 {
		known = []string{"none"}
	}
	return Part{}, fmt.Errorf("${%s:%s} names nothing of this test; known: %s", kind, name, strings.Join(known, ", "))
}
