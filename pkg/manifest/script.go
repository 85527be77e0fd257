package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/render"
	"github.com/profllm/profllm/templates"
)

// ScriptName is the template of the Job's script.
const ScriptName = "kube/client.sh.tmpl"

// askInPython asks a server in an image without curl: address, body, file for the answer. It prints
// the status, 000 for none.
const askInPython = `import sys, urllib.error, urllib.request
url, body, file = sys.argv[1:]
request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
try:
    with urllib.request.urlopen(request, timeout=60) as answer:
        status, text = answer.status, answer.read()
except urllib.error.HTTPError as error:
    status, text = error.code, error.read()
except Exception as error:
    status, text = "000", str(error).encode()
open(file, "wb").write(text)
print(status)
`

// script is what the template sees.
type script struct {
	Version, RunID, Digest                 string
	Root, URL, Ask, Chat, Completion       string
	NotReady                               string
	PhaseEnded, ArchiveBegins, ArchiveEnds string
	Dirs                                   []string
	Ready, Limit                           int // s
	StopOnFailure                          bool
	Clients                                []client
}

type client struct {
	Phase, Log string
	Command    []string
}

// Script prints the bash script of the Job's container, which runs in the folder root.
func Script(p *plan.Plan, root string) ([]byte, error) {
	text, err := fs.ReadFile(templates.Kube, ScriptName)
	if err != nil {
		return nil, err
	}
	t, err := template.New(ScriptName).Option("missingkey=error").Funcs(render.Funcs()).Parse(string(text))
	if err != nil {
		return nil, err
	}
	s, err := newScript(p, root)
	if err != nil {
		return nil, err
	}
	s.Digest = fmt.Sprintf("sha256:%.12x", sha256.Sum256(text))
	var out bytes.Buffer
	if err := t.Execute(&out, s); err != nil {
		return nil, fmt.Errorf("render %s: %w", ScriptName, err)
	}
	if _, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(out.Bytes()),
		ScriptName); err != nil {
		return nil, fmt.Errorf("render %s: the script does not parse: %w", ScriptName, err)
	}
	return out.Bytes(), nil
}

func newScript(p *plan.Plan, root string) (*script, error) {
	k := p.Kubernetes
	front := frontOf(p)
	if front == nil {
		return nil, fmt.Errorf("no role answers clients")
	}
	port, ok := p.PortNamed(front.Health.Port)
	if !ok {
		return nil, fmt.Errorf("role %q has no port", front.Name)
	}
	s := &script{Version: p.Version, RunID: p.RunID, Root: root, URL: fmt.Sprintf("http://%s:%d", host(p, front.Name),
		port.Base),
		Ask: askInPython, PhaseEnded: plan.PhaseEnded, ArchiveBegins: plan.ArchiveBegins, ArchiveEnds: plan.ArchiveEnds,
		Ready: seconds(k.Ready), Limit: seconds(k.Limit), StopOnFailure: p.StopOnFailure,
		NotReady: fmt.Sprintf("profllm: no request was answered within %d s; the last status and answer:",
			seconds(k.Ready)),
		Dirs: []string{"raw", "logs"},
	}
	var err error
	if s.Chat, s.Completion, err = requests(modelName(p)); err != nil {
		return nil, err
	}
	for i := range p.Loads {
		l := &p.Loads[i]
		rel, err := filepath.Rel(p.Dir, l.Dir)
		if err != nil || !filepath.IsLocal(rel) {
			return nil, fmt.Errorf("load %q is outside of the run", l.Name)
		}
		for _, dir := range []string{path.Join(rel, "raw"), path.Join(rel, "logs")} {
			if !slices.Contains(s.Dirs, dir) {
				s.Dirs = append(s.Dirs, dir)
			}
		}
		for j := range l.Clients {
			step := &l.Clients[j]
			c := client{Phase: l.Phase(step.Name), Log: strings.ReplaceAll(step.Log, "%t", "0")}
			if c.Command, err = command(p, step); err != nil {
				return nil, fmt.Errorf("client %q: %w", step.Name, err)
			}
			s.Clients = append(s.Clients, c)
		}
	}
	return s, nil
}

// command is the command of a client with its own variables before it.
func command(p *plan.Plan, s *plan.Step) ([]string, error) {
	var list []string
	for _, v := range s.Env {
		text, err := resolve(p, v.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		list = append(list, v.Name+"="+text)
	}
	if len(list) > 0 {
		list = append([]string{"env"}, list...)
	}
	words, err := resolveAll(p, s.Argv)
	return append(list, words...), err
}

// requests are the smallest that a served model answers.
func requests(model string) (chat, completion string, err error) {
	a, err := json.Marshal(struct {
		Model    string              `json:"model"`
		Messages []map[string]string `json:"messages"`
		Tokens   int                 `json:"max_tokens"`
	}{model, []map[string]string{{"role": "user", "content": "Hi"}}, 1})
	if err != nil {
		return "", "", err
	}
	b, err := json.Marshal(struct {
		Model  string `json:"model"`
		Prompt string `json:"prompt"`
		Tokens int    `json:"max_tokens"`
	}{model, "Hi", 1})
	return string(a), string(b), err
}

// modelName is the name by which clients ask for the model.
func modelName(p *plan.Plan) string {
	for _, l := range p.Loads {
		for _, c := range l.Clients {
			for _, option := range []string{"--served-model-name", "--model"} {
				for i, w := range c.Argv {
					text, _ := w.Literal()
					if value, joined := strings.CutPrefix(text, option+"="); joined {
						return value
					}
					if text == option && i+1 < len(c.Argv) {
						name, _ := c.Argv[i+1].Literal()
						return name
					}
				}
			}
		}
	}
	return p.Config.Model
}

func seconds(s plan.Seconds) int { return int(time.Duration(s) / time.Second) }
