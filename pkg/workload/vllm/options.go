package vllm

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// checkOptions refuses the options that `vllm serve` of the test's release would refuse, in its
// own words: the job would fail with them after its nodes were allocated.
func (w *Workload) checkOptions(r *serving.Role, c *source.Complaints) {
	var taken []string
	if balanced(serving.Instance{Role: *r}) == hybrid && r.Option(dataLocalKey) == nil {
		taken = []string{"--data-parallel-size-local", "1"} // the plan adds it, with another number
	}
	for _, key := range r.Options.Keys() {
		if w.Unchecked(key) || w.Misspelt(r, key) || engine.Planned[key] != "" {
			continue
		}
		v := r.Options.Get(key)
		var words []string
		for _, word := range serving.Option(key, v, serving.Negatable) {
			words = append(words, word.String())
		}
		args, refusal := w.server.Check(w.release(), words[0], words[1:]...)
		if refusal == nil {
			taken = append(taken, args...)
			continue
		}
		if refusal.Unknown {
			c.Add(source.Errorf(r.Options.KeyPos(key), "%s is an option of no release of vLLM that profllm knows (%s to %s)",
				r.Path(key), w.server.Oldest().Version, w.server.Newest().Version).
				Hintf("remove it; if your release has it, add it to cmd_args.unchecked_options"))
			continue
		}
		c.Add(source.Errorf(memberPos(v, refusal.Member), "%s: %s", r.Path(key), refusal.Says()).
			Hintf("%s", cmp.Or(refusal.Hint, "see profllm args show "+key)))
	}
	w.checkTogether(r, taken, c)
}

// memberPos is where a member of a table stands, by its name with dots; else where the value does.
func memberPos(v *source.Value, name string) source.Pos {
	pos := v.Pos
	for key := range strings.SplitSeq(name, ".") {
		t, ok := v.Any.(*source.Table)
		if !ok || t.Get(key) == nil {
			break
		}
		v, pos = t.Get(key), t.KeyPos(key)
	}
	return pos
}

// checkTogether refuses combinations of options with which no engine starts, and notes those that
// are probably not meant.
func (w *Workload) checkTogether(r *serving.Role, taken []string, c *source.Complaints) {
	for _, conflict := range arguments.Conflicts(taken) {
		key := setHere(r, conflict.Options)
		pos := r.Options.Get(key).Pos
		if conflict.Warning {
			w.Notes = append(w.Notes, fmt.Sprintf("%s: %s", pos, conflict.Text))
			continue
		}
		c.Add(source.Errorf(pos, "%s: vLLM does not start with these options: %s", r.Path(key), conflict.Text).
			Hintf("change or remove one of %s", strings.Join(conflict.Options, ", ")))
	}
}

// setHere is the first of the options that the role sets, by the key with which it does.
func setHere(r *serving.Role, options []string) string {
	for _, option := range options {
		for _, key := range r.Options.Keys() {
			name, _, _ := strings.Cut(strings.ReplaceAll(key, "_", "-"), ".")
			if strings.TrimPrefix(name, "no-") == strings.TrimPrefix(option, "--") {
				return key
			}
		}
	}
	return r.Options.Keys()[0] // by an abbreviation
}

// release is what the test says of vLLM's version, "" if it does not.
func (w *Workload) release() string { return arguments.Declared(w.EngineVersion, w.DockerImageURL) }
