package gsm8k

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// counting are the options of a known program that say how many questions it asks; whole is set if
// no part of them can be asked for. Of other programs nothing is known.
func counting(words []string) (options []string, whole bool) {
	for _, word := range words {
		switch name := path.Base(word); {
		case strings.HasPrefix(word, "-"):
			if word != "-m" { // python3 -m MODULE
				return nil, false
			}
		case name == "lm_eval", name == "lm-eval":
			return []string{"--limit", "-L"}, false // "N|0<N<1" in the help of lm-evaluation-harness
		case name == path.Base(strings.Fields(defaultEntrypoint)[1]), name == strings.Fields(ownEntrypoint)[1]:
			return []string{"--num-questions"}, true
		}
	}
	return nil, false
}

// checkCount refuses a number of questions that the program would refuse or that asks none, which a
// job would learn once its server is up. Placeholders have no such value.
func checkCount(pos source.Pos, words []string, c *source.Complaints) {
	options, whole := counting(words)
	for i, word := range words {
		option, value, joined := strings.Cut(word, "=")
		if !slices.Contains(options, option) {
			continue
		}
		if !joined {
			if i+1 == len(words) {
				c.Addf(pos, "semantic_eval_cmd_args: %s has no value", option)
				return
			}
			value = words[i+1]
		}
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case strings.ContainsAny(value, "{$"):
		case whole && (err != nil || n < 1 || n != math.Trunc(n)):
			c.Addf(pos, "semantic_eval_cmd_args: %s is %q, must be a number of questions, 1 or more", option, value)
		case err != nil || !(n > 0) || math.IsInf(n, 0):
			c.Add(source.Errorf(pos, "semantic_eval_cmd_args: %s is %q, must be a number above 0", option, value).
				Hintf("write a number of questions, or a share of them such as 0.1; without %s, all are asked", option))
		}
	}
}
