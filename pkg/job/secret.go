package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// Exec is a command that is given secrets.
type Exec struct {
	Secrets []plan.Secret
	Command []string
}

// ParseSecrets reads NAME=VARIABLE and NAME=FILE arguments.
func ParseSecrets(env, files []string) ([]plan.Secret, error) {
	var list []plan.Secret
	for i, arg := range slices.Concat(env, files) {
		name, from, ok := strings.Cut(arg, "=")
		if !ok || name == "" || from == "" {
			return nil, fmt.Errorf("%q is not NAME=VARIABLE or NAME=FILE", arg)
		}
		s := plan.Secret{Name: name, Env: from}
		if i >= len(env) {
			s = plan.Secret{Name: name, File: from}
		}
		list = append(list, s)
	}
	return list, nil
}

// EnvironWithSecrets returns the environment of a command, with its secrets.
func (j *Job) EnvironWithSecrets(x Exec, environ []string) ([]string, error) {
	if len(x.Command) == 0 {
		return nil, errors.New("no command")
	}
	var errs []error
	for _, s := range x.Secrets {
		value, err := run.ReadSecret(j.Dir, s)
		errs = append(errs, err)
		environ = append(withoutVariables(environ, s.Name), s.Name+"="+value)
	}
	return environ, errors.Join(errs...)
}

// ForgetSecrets overwrites the run's secrets in the output of its processes, notes where they
// were found, and removes their files unless the job may be queued again.
func (j *Job) ForgetSecrets(stays bool) error {
	found, err := run.ForgetSecrets(j.Dir, stays)
	errs := []error{err}
	for _, m := range found {
		text := "a secret was found here"
		if m.Count > 1 {
			text = fmt.Sprintf("secrets were found in %d places", m.Count)
		}
		errs = append(errs, j.event(Event{Event: SecretMasked, File: m.File, Line: m.Line, Text: text}))
		j.logf("%s:%d: %s; overwritten with xxx", m.File, m.Line, text)
	}
	return errors.Join(errs...)
}
