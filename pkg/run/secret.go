package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/regular"
)

// SecretDir holds the values of the submitting shell's secrets while a job needs them: one
// file for each variable, named after it and readable by its user only.
const SecretDir = "secrets"

// MissingSecretError names the variables that a submission needs and lacks.
type MissingSecretError struct{ Names []string }

func (e *MissingSecretError) Error() string {
	return fmt.Sprintf("a secret is not set in this shell: %s\n\thint: export %s=…, or use { file = … }, which the node reads",
		strings.Join(e.Names, ", "), e.Names[0])
}

// CheckSecrets checks the variables of the submitting shell that runs need. If some are
// missing, the error is a *MissingSecretError.
func CheckSecrets(plans []*plan.Plan, lookup func(string) (string, bool)) error {
	var names, missing []string
	for _, p := range plans {
		names = append(names, p.SecretEnv()...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if value, ok := lookup(name); !ok || value == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return &MissingSecretError{missing}
	}
	return nil
}

// CheckSecrets does so for a unit and its hooks.
func (u *Unit) CheckSecrets(lookup func(string) (string, bool)) error {
	var plans []*plan.Plan
	err := u.eachPlan(func(_ string, p *plan.Plan) error {
		plans = append(plans, p)
		return nil
	})
	if err != nil {
		return err
	}
	return CheckSecrets(plans, lookup)
}

// writeSecrets gives each run of a unit what it needs of the submitting shell.
func (u *Unit) writeSecrets(lookup func(string) (string, bool)) error {
	if err := u.CheckSecrets(lookup); err != nil {
		return err
	}
	return u.eachPlan(func(dir string, p *plan.Plan) error {
		if err := ExpectSecrets(dir, p); err != nil {
			return err
		}
		dir = filepath.Join(dir, SecretDir)
		for _, name := range p.SecretEnv() {
			value, _ := lookup(name)
			if err := WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
				return err
			}
		}
		return nil
	})
}

// ExpectSecrets makes the folder of secrets of a run that has any, and of the run whose
// hook it is, also if the secrets are files: the folder says that the run's output has not
// been searched for secrets yet. A job makes it again when it is queued again.
func ExpectSecrets(dir string, p *plan.Plan) error {
	if len(p.Secrets()) == 0 {
		return nil
	}
	if parent, ok := HookOf(dir); ok {
		if err := privateDir(filepath.Join(parent, SecretDir)); err != nil {
			return err
		}
	}
	return privateDir(filepath.Join(dir, SecretDir))
}

// privateDir makes a folder for its user alone, whatever a default ACL says.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := CheckDir(dir); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// HookOf returns the directory of the run that has dir as its hook.
func HookOf(dir string) (parent string, ok bool) {
	above := filepath.Dir(dir)
	if base := filepath.Base(above); base != PreTestDir && base != PostTestDir {
		return "", false
	}
	parent = filepath.Dir(above)
	return parent, exists(filepath.Join(parent, PlanFile)) // else a test has that name
}

// dropSecrets removes what writeSecrets wrote.
func (u *Unit) dropSecrets() error {
	return u.eachPlan(func(dir string, _ *plan.Plan) error { return os.RemoveAll(filepath.Join(dir, SecretDir)) })
}

// eachPlan calls f for the runs of a unit and their hooks.
func (u *Unit) eachPlan(f func(dir string, p *plan.Plan) error) error {
	for _, dir := range u.Runs() {
		p, err := ReadPlan(dir)
		if err != nil {
			return err
		}
		if err := f(dir, p); err != nil {
			return err
		}
		for _, h := range hooksOf(p) {
			at := movedPath(dir, p, h.Dir)
			hook, err := ReadPlan(at)
			if err != nil {
				return err
			}
			if err := f(at, hook); err != nil {
				return err
			}
		}
	}
	return nil
}

// Secrets returns the secret values of the run in dir and of its hooks, as far as they are
// still known: those kept for the job, and files. For a run of CloudAI, nothing is known.
func Secrets(dir string) redact.Values {
	p, err := ReadPlan(dir)
	if err != nil {
		return redact.Values{}
	}
	values, _ := secretsOf(dir, p)
	return values
}

// SecretFiles lists the files outside the run directory that hold secrets of the run in
// dir or of its hooks.
func SecretFiles(dir string) (files []string, err error) {
	p, err := ReadPlan(dir)
	if err != nil {
		return nil, err
	}
	u := Unit{Dir: dir, Plan: p}
	err = u.eachPlan(func(_ string, p *plan.Plan) error {
		for _, s := range p.Secrets() {
			if s.Env == "" {
				files = append(files, s.File)
			}
		}
		return nil
	})
	return files, err
}

// secretsOf are those. One that is kept and cannot be read is an error.
func secretsOf(dir string, p *plan.Plan) (redact.Values, error) {
	var values []string
	var errs []error
	u := Unit{Dir: dir, Plan: p}
	err := u.eachPlan(func(at string, p *plan.Plan) error {
		for _, s := range p.Secrets() {
			value, err := ReadSecret(at, s)
			if failed := (*fs.PathError)(nil); s.Env != "" && errors.As(err, &failed) {
				errs = append(errs, err)
			}
			if err == nil {
				values = append(values, value)
			}
		}
		return nil
	})
	return redact.Known(values...), errors.Join(append(errs, err)...)
}

// secretLimit is how long a secret may be: an argument or a variable of a process
// takes up to 128 KiB.
const secretLimit = 128<<10 - 256

// ReadSecret reads the value of a secret of the run in dir, on the node that needs it.
// Line ends at the end of a file are not part of the secret.
func ReadSecret(dir string, s plan.Secret) (string, error) {
	file := s.File
	if s.Env != "" {
		file = filepath.Join(dir, SecretDir, s.Env)
	}
	data, err := regular.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.Env != "":
		return "", fmt.Errorf("the secret %s is missing (%s): its file is deleted when the job ends\n\thint: profllm slurm resume --failed %s, in a shell that sets %s", s.Name, file, dir, s.Env)
	case err != nil:
		return "", fmt.Errorf("the secret %s: %w", s.Name, err)
	}
	value := string(data)
	if s.Env == "" {
		value = strings.TrimRight(value, "\r\n")
	}
	switch {
	case value == "":
		return "", fmt.Errorf("the secret %s: %s is empty", s.Name, file)
	case strings.ContainsRune(value, 0):
		return "", fmt.Errorf("the secret %s: %s contains a NUL byte, which an environment variable cannot hold",
			s.Name, file)
	case len(value) > secretLimit:
		return "", fmt.Errorf("the secret %s: %s has %d bytes; an environment variable holds at most %d", s.Name, file,
			len(value), secretLimit)
	}
	return value, nil
}

// Masked is a place where a secret was found and overwritten.
type Masked struct {
	File  string // below the run directory
	Line  int
	Count int // in that file
}

// records are the files that profllm itself writes into a run directory. They hold
// references, and a value that is an ordinary word must not spoil them.
var records = []string{
	PlanFile, ScriptFile, IntentFile, SubmitFile, StateFile, ClaimFile, PlacementFile, SentinelFile, ResultFile,
	EventFile, BatchFile, RunsFile, LoadFile,
}

// mask overwrites the secrets of a run, each letter by an x, in everything that
// lies in its directory and in those of its loads, but for the records: what
// engines and clients print goes to files that they write themselves. The files
// keep their length.
func mask(dir string, p *plan.Plan) ([]Masked, error) {
	values, err := secretsOf(dir, p)
	if err != nil || values.Empty() {
		return nil, err
	}
	dirs := []string{dir}
	for _, at := range loadsOf(dir, p) {
		if !strings.HasPrefix(at+"/", dir+"/") {
			dirs = append(dirs, at)
		}
	}
	for _, at := range dirs {
		if err := CheckDir(at); err != nil {
			return nil, err
		}
	}
	var found []Masked
	var errs []error
	for _, top := range dirs {
		errs = append(errs, filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				errs = append(errs, err)
				return fs.SkipDir
			case d.IsDir() && d.Name() == SecretDir:
				return fs.SkipDir
			case !d.Type().IsRegular(), slices.Contains(records, d.Name()), strings.HasPrefix(d.Name(), "intent-"):
				return nil
			}
			hits, err := values.Mask(name)
			if len(hits) > 0 {
				rel, _ := filepath.Rel(dir, name)
				found = append(found, Masked{File: rel, Line: hits[0].Line, Count: len(hits)})
			}
			errs = append(errs, err)
			return nil
		}))
	}
	return found, errors.Join(errs...)
}

// KeepsSecrets reports whether secrets of a run or of its hooks are still stored, or may
// still stand in its output.
func KeepsSecrets(dir string) bool { return exists(filepath.Join(dir, SecretDir)) }

// ForgetSecrets overwrites the secrets in the output of a run whose processes are over, and
// removes their files, also for its hooks. A second call finds nothing to do. The files
// stay if the output could not be searched, or if the run may continue (stays), because
// Slurm queues a job again that it had to end. A hook keeps its files; its run removes
// them.
func ForgetSecrets(dir string, stays bool) ([]Masked, error) {
	if !KeepsSecrets(dir) {
		return nil, nil
	}
	p, err := ReadPlan(dir)
	if err != nil {
		return nil, err
	}
	found, err := mask(dir, p)
	if _, hook := HookOf(dir); err != nil || stays || hook {
		return found, err
	}
	return found, (&Unit{Dir: dir, Plan: p}).dropSecrets()
}
