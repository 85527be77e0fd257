package manifest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
)

// frontOf is the role that answers clients: the router or the proxy, or the only server.
func frontOf(p *plan.Plan) *plan.Role {
	for i := range p.Roles {
		if r := &p.Roles[i]; r.Router || p.Kubernetes.Graph == "" && !r.Engine {
			return r
		}
	}
	if len(p.Roles) == 1 {
		return &p.Roles[0]
	}
	return nil
}

// host is the name of the Service before a role: Dynamo's operator and profllm make one for each.
func host(p *plan.Plan, role string) string {
	if p.Kubernetes.Graph == "" && len(p.Roles) == 1 {
		return p.Kubernetes.Name
	}
	return p.Kubernetes.Name + "-" + strings.ReplaceAll(strings.ToLower(role), "_", "-")
}

// ofOwnPod reports whether a word is the address of the pod that it is given to: a server listens
// there, which it cannot at the address of a Service.
func ofOwnPod(w plan.Word, role string) bool {
	return len(w) == 1 && w[0] == plan.Addr(role)
}

// resolve is a word as a pod has it: addresses are names of Services, ports are fixed.
func resolve(p *plan.Plan, w plan.Word) (string, error) {
	var b strings.Builder
	for _, part := range w {
		switch {
		case part.Addr != "":
			if p.Role(part.Addr) == nil {
				return "", fmt.Errorf("%s: there is no role %q", w, part.Addr)
			}
			b.WriteString(host(p, part.Addr))
		case part.Port != "":
			port, ok := p.PortNamed(part.Port)
			if !ok {
				return "", fmt.Errorf("%s: there is no port %q", w, part.Port)
			}
			b.WriteString(strconv.Itoa(port.Base))
		case part.Self:
			return "", fmt.Errorf("%s: no pod has profllm itself", w)
		case part.Env != "" || part.File != "" || part.Shell != "":
			return "", fmt.Errorf("%s cannot be resolved for a pod", w)
		default:
			b.WriteString(part.Text)
		}
	}
	if strings.ContainsRune(b.String(), 0) {
		return "", fmt.Errorf("%q holds a NUL byte", b.String())
	}
	return b.String(), nil
}

func resolveAll(p *plan.Plan, words []plan.Word) ([]string, error) {
	list := make([]string, len(words))
	for i, w := range words {
		var err error
		if list[i], err = resolve(p, w); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// escaped is a text that a kubelet leaves as it is. It expands $(NAME) in commands and variables,
// and reads $$ as one dollar sign (k8s.io/kubernetes/third_party/forked/golang/expansion).
func escaped(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteByte(s[i])
		if s[i] == '$' && i+1 < len(s) && (s[i+1] == '$' || s[i+1] == '(') {
			b.WriteByte('$')
		}
	}
	return b.String()
}

func escapedAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = escaped(s)
	}
	return out
}
