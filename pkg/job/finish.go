package job

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/run"
)

// Lost is the exit code of a phase that was ended because a role had died.
const Lost = -1

// ParsePhases reads name=code arguments; "lost" is a code.
func ParsePhases(args []string) ([]run.Phase, error) {
	list := make([]run.Phase, len(args))
	for i, a := range args {
		name, text, _ := strings.Cut(a, "=")
		code, err := strconv.Atoi(text)
		if text == "lost" {
			code, err = Lost, nil
		}
		if err != nil || name == "" {
			return nil, fmt.Errorf("%q is not name=code", a)
		}
		list[i] = run.Phase{Name: name, Code: code}
	}
	return list, nil
}

// Finish writes the sentinel: the script has ended, with this exit code, these phases, and
// these exit codes of the roles' steps. Judged may follow.
func (j *Job) Finish(code int, phases, roles []run.Phase) error {
	if err := j.owns(); err != nil {
		return err
	}
	s := run.Sentinel{Schema: "profllm.finish/1", JobID: j.id(), Time: j.Now().UTC(), Code: code, Script: &code,
		Phases: phases, Roles: roles}
	return errors.Join(run.WriteJSON(j.path(run.SentinelFile), s), j.linkForCloudAI())
}

// Judged replaces the job's exit code in the sentinel by the exit code of the judgement.
func (j *Job) Judged(code int) error {
	if err := j.owns(); err != nil {
		return err
	}
	var s run.Sentinel
	if err := run.ReadJSON(j.path(run.SentinelFile), &s); err != nil {
		return err
	}
	s.Code = code
	return run.WriteJSON(j.path(run.SentinelFile), s)
}

// linkForCloudAI gives the files of each load's clients the names and the place
// that CloudAI looks for.
func (j *Job) linkForCloudAI() error {
	p, err := run.ReadPlan(j.Dir)
	if err != nil {
		return err
	}
	dirs := []string{j.Dir}
	for i := range p.Loads {
		if dir := j.loadDir(&p.Loads[i]); dir != j.Dir {
			dirs = append(dirs, dir)
		}
	}
	var errs []error
	for _, dir := range dirs {
		for link, file := range map[string]string{
			"vllm-bench.json": "raw/vllm-bench.json", "vllm-gsm8k.json": "raw/vllm-gsm8k.json",
			"vllm-bench.log": "logs/bench-0.log", "vllm-semantic-eval.log": "logs/eval-0.log",
		} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				continue
			}
			if err := os.Symlink(file, filepath.Join(dir, link)); err != nil && !errors.Is(err, os.ErrExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
