package plan

import (
	"path"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// apiCheckStep is the name of the step that checks the API before the first load, and of its
// phase.
const apiCheckStep = "api_check"

// checkAPI plans the checks of the API: on the node of the client, which may see other addresses
// than the servers do, and with the address and the model that the client is given.
func (p *Plan) checkAPI(in Input, service Service) error {
	if len(in.APICheck) == 0 {
		return nil
	}
	if len(service.Roles) == 0 {
		return source.Errorf(in.Test.PosOf("api_check"), "a %s serves nothing, so api_check has no effect", p.Workload).
			Hintf("remove it")
	}
	argv := append([]Word{Self()}, Texts("job", "api", "--run", p.Dir, "--url")...)
	argv = append(argv, Concat("http://", service.host(), ":", PortNumber(service.Endpoint.Port)))
	if first := p.firstClient(); first != nil {
		if name := optionValue(first.Argv, "--served-model-name", "--model"); name != "" {
			argv = append(argv, Texts("--model", name)...)
		}
	}
	argv = append(argv, Texts("--only", strings.Join(in.APICheck, ","))...)
	p.APICheck = &Step{Name: apiCheckStep, Nodes: Slice{Offset: service.ClientNodes.Offset, Count: 1}, Argv: argv,
		Log: path.Join("logs", apiCheckStep+"-%t.log")}
	return nil
}

// firstClient is the step that measures first, nil if none does.
func (p *Plan) firstClient() *Step {
	for i := range p.Loads {
		if l := &p.Loads[i]; len(l.Clients) > 0 {
			return &l.Clients[0]
		}
	}
	return nil
}

// host is where clients find the service.
func (s *Service) host() Word {
	if s.ClientHost != "" {
		return Text(s.ClientHost)
	}
	return Word{Addr(s.EndpointRole)}
}

// optionValue is the value of the first of these options that a command has, "" if it has none.
func optionValue(argv []Word, options ...string) string {
	for _, option := range options {
		for i, w := range argv {
			text, _ := w.Literal()
			if value, joined := strings.CutPrefix(text, option+"="); joined {
				return value
			}
			if text == option && i+1 < len(argv) {
				value, _ := argv[i+1].Literal()
				return value
			}
		}
	}
	return ""
}
