package plan

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/source"
)

// Secret is a variable whose value is in no plan and no script. Exactly one of
// Env and File says where the step's own process finds it.
type Secret struct {
	Name string `json:"name"`
	// the named variable of the submitting shell, kept for the job in a file of its user's
	Env  string `json:"env,omitempty"`
	File string `json:"file,omitempty"` // a file on the node, absolute
}

// Secrets lists the secrets of every step, each once, by their names.
func (p *Plan) Secrets() []Secret {
	var list []Secret
	for _, s := range p.steps() {
		for _, x := range s.Secrets {
			if !slices.Contains(list, x) {
				list = append(list, x)
			}
		}
	}
	slices.SortFunc(list, func(a, b Secret) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Env, b.Env), cmp.Compare(a.File, b.File))
	})
	return list
}

// SecretEnv lists the variables of the submitting shell that are needed, sorted.
func (p *Plan) SecretEnv() []string {
	var names []string
	for _, x := range p.Secrets() {
		if x.Env != "" && !slices.Contains(names, x.Env) {
			names = append(names, x.Env)
		}
	}
	slices.Sort(names)
	return names
}

// steps lists the steps of the roles, then those of the clients.
func (p *Plan) steps() []*Step {
	var list []*Step
	for i := range p.Setup {
		list = append(list, &p.Setup[i])
	}
	for i := range p.Roles {
		list = append(list, &p.Roles[i].Step)
	}
	for i := range p.Loads {
		for j := range p.Loads[i].Clients {
			list = append(list, &p.Loads[i].Clients[j])
		}
	}
	return list
}

// asked is a secret, and the roles and clients that shall have it, nil for all.
type asked struct {
	Secret
	steps []string
	pos   source.Pos
}

// reference is a value that is not written down: a secret, or shell text.
type reference struct {
	Env   string   `toml:"env"`
	File  string   `toml:"file"`
	Shell string   `toml:"shell"`
	For   []string `toml:"for"`
}

// readReference reads { env = … }, { file = … }, either with for = […], or
// { shell = … }.
func readReference(name string, v *source.Value, t *source.Table) (reference, error) {
	var ref reference
	if err := source.Decode(t, &ref); err != nil {
		return ref, err
	}
	keys := len(t.Keys())
	if t.Has("for") {
		keys--
	}
	switch {
	case keys != 1 || (Part{Env: ref.Env, File: ref.File, Shell: ref.Shell}).fields() != 1:
		return ref, source.Errorf(v.Pos, "%s: write exactly one of env, file, shell", name)
	case ref.Env != "" && !validName(ref.Env):
		return ref, source.Errorf(v.Pos, "%s: %q cannot name an environment variable", name, ref.Env)
	case ref.Shell != "" && t.Has("for"):
		return ref, source.Errorf(v.Pos,
			"%s: for is allowed with env and file only; shell text applies to the whole job", name)
	case t.Has("for") && len(ref.For) == 0:
		return ref, source.Errorf(v.Pos, "%s: for names no role", name).
			Hintf("remove for: then every role and client gets the secret")
	case strings.HasPrefix(ref.File, "~"):
		return ref, source.Errorf(v.Pos, "%s: %q is not expanded", name, ref.File).
			Hintf("write the absolute path, as the nodes see it")
	}
	return ref, nil
}

// give puts secrets into the steps that shall have them. A role is named as a
// whole (decode) or as one of its instances (decode_1), a client by its name.
func (p *Plan) give(secrets []asked) error {
	var c source.Complaints
	known := []string{}
	kind := map[string]string{}
	for i := range p.Roles {
		r := &p.Roles[i]
		kind[r.Step.Name] = r.KindName()
		known = union(known, []string{r.KindName(), r.Name})
	}
	for _, s := range p.steps() {
		if kind[s.Name] == "" {
			known = union(known, []string{s.Name})
		}
	}
	for _, x := range secrets {
		for _, name := range x.steps {
			if !slices.Contains(known, name) {
				err := source.Errorf(x.pos, "%s: for: %q is not a role or client of this test; known: %s", x.Name, name,
					strings.Join(known, ", "))
				if near := source.Nearest(name, known); near != "" {
					err = err.Hintf("did you mean %q?", near)
				}
				c.Add(err)
			}
		}
		for i := range p.Roles {
			r := &p.Roles[i]
			if x.steps == nil || slices.Contains(x.steps, r.Name) || slices.Contains(x.steps, r.KindName()) {
				r.Step.Secrets = append(r.Step.Secrets, x.Secret)
			}
		}
		for i := range p.Loads {
			for j := range p.Loads[i].Clients {
				s := &p.Loads[i].Clients[j]
				if x.steps == nil || slices.Contains(x.steps, s.Name) {
					s.Secrets = append(s.Secrets, x.Secret)
				}
			}
		}
	}
	if first := p.firstClient(); p.APICheck != nil && first != nil {
		p.APICheck.Secrets = slices.Clone(first.Secrets) // among them the key of the API
	}
	return c.Err()
}

// noteSecretsInCommands notes the commands that hold what looks like a secret, and a prologue that
// names one.
func (p *Plan) noteSecretsInCommands(pos source.Pos) {
	for _, x := range p.Secrets() {
		if regexp.MustCompile(`\$\{?` + x.Name + `\b`).MatchString(p.Prologue) {
			p.Notes = append(p.Notes,
				fmt.Sprintf("%s: the prologue uses $%s, which is not set there: only roles and clients get secrets; custom_bash runs where the secret is set", pos, x.Name))
		}
	}
	for _, s := range p.steps() {
		var words []string
		for _, w := range s.Argv {
			words = append(words, w.String())
		}
		if !slices.Equal(words, redact.Words(words)) {
			p.Notes = append(p.Notes,
				fmt.Sprintf("%s: the command of %s seems to contain a secret: every user of the node can see it, and the plan, the script and the kept definitions contain it; use a variable instead, such as VLLM_API_KEY = { env = … }", pos, s.Name))
		}
	}
}

// absolute makes the path of a secret's file one that the nodes understand.
func absolute(file, workDir string) string {
	if file == "" || path.IsAbs(file) {
		return file
	}
	return path.Join(workDir, file)
}

// shellWord finds what may be the name of a variable, a file or an option in shell text.
var shellWord = lazyregexp.New(`[A-Za-z_]\w*`)

// namesSecret reports whether shell text names what holds a secret.
func namesSecret(shell string) bool {
	return slices.ContainsFunc(shellWord.FindAllString(shell, -1), redact.Key)
}
