package dynamo

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/profllm/profllm/pkg/serving"
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// checkModel refuses a name of a model that is blank or not one line: clients ask for it, and Dynamo
// makes names of folders of it.
func (w *Workload) checkModel(c *source.Complaints) {
	pos, model := w.table.PosOf("model"), w.service.Model
	switch {
	case strings.ContainsFunc(model, unicode.IsControl):
		c.Add(source.Errorf(pos, "dynamo.model %q has a control character", model).Hintf("write the name on one line"))
	case strings.TrimSpace(model) == "":
		c.Add(source.Errorf(pos, "dynamo.model is blank").Hintf("write a Hugging Face id or a path"))
	}
}

// checkValues refuses values of vLLM's options that no release of vLLM takes, in its own words: the
// worker would end with them after its nodes were allocated. Which release an image has, nobody says;
// options that no release has may be Dynamo's own.
func (w *Workload) checkValues(c *source.Complaints) {
	if w.service.Backend != "vllm" {
		return
	}
	for _, r := range []*role{&w.prefill, &w.decode} {
		for _, key := range r.args.Keys() {
			v := r.args.Get(key)
			if key == "connector" || slices.Contains(modelKeys, key) || w.backend.planned[key] != "" {
				continue
			}
			words := literals(serving.Option(w.backend.spelt(key), v, w.backend.booleans))
			c.Add(refusedValue(v.Pos, r.label()+".args."+key, words))
		}
		command, _ := words(r.Cmd, r.pos("cmd")) // checkCommands complains
		for _, x := range []struct {
			key   string
			words []string
		}{{"cmd", command}, {"extra_args", literals(r.extra)}} {
			for _, option := range optionsAmong(x.words) {
				c.Add(refusedValue(r.pos(x.key), r.label()+"."+x.key+": "+option[0], option))
			}
		}
	}
}

// refusedValue is the complaint about an option with its values, nil if some release takes them.
func refusedValue(pos source.Pos, what string, words []string) error {
	if len(words) == 0 {
		return nil
	}
	_, refusal := arguments.Serve.Check("", words[0], words[1:]...)
	if refusal == nil || refusal.Unknown || arguments.Serve.Takes(words[0], words[1:]...) {
		return nil
	}
	return source.Errorf(pos, "%s: %s", what, refusal.Says()).
		Hintf("%s", cmp.Or(refusal.Hint, "see profllm args show "+strings.TrimLeft(words[0], "-")))
}

// optionsAmong are the long options among the words of a command, each with the words behind it.
func optionsAmong(words []string) (list [][]string) {
	for _, word := range words {
		switch {
		case strings.HasPrefix(word, "--") && len(word) > 2:
			list = append(list, []string{word})
		case len(list) > 0:
			list[len(list)-1] = append(list[len(list)-1], word)
		}
	}
	return list
}
