package client

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/sim/program"
)

// foreign are the beginnings of options of data sets and protocols that profllm's own load client
// has not; the simulated client sends random prompts in their place.
var foreign = []string{
	"asr-", "bfcl", "blazedit-", "chat-template-kwargs", "custom-", "dataset-name", "dataset-path",
	"enable-multimodal-chat", "hf-", "lora-", "no-reranker", "no-stream", "plot-", "prefix-repetition-",
	"random-batch-size", "random-mm-", "sharegpt-", "skip-chat-template", "sonnet-", "spec-bench-", "speed-bench-",
	"timed-trace-", "timeline-",
}

// random turns a command line of vLLM's client into one that profllm's own can run: prompts of
// every other data set become random ones, and every request to a LoRA adapter goes to the first.
// What was changed is said on out.
func random(args []string, out io.Writer) []string {
	f := program.ParseFlags(args)
	leave := slices.Clone(foreign)
	var add []string
	switch dataset := f.Text("dataset-name", "random"); dataset {
	case "random":
	case "prefix_repetition": // the same shape, with one prefix for all
		leave = append(leave, "random-")
		add = append(add, "--random-prefix-len", f.Text("prefix-repetition-prefix-len", "256"),
			"--random-input-len", f.Text("prefix-repetition-suffix-len", "256"),
			"--random-output-len", f.Text("prefix-repetition-output-len", "128"))
		fmt.Fprintln(out, "profllm sim: every prompt begins with the same prefix")
	default:
		fmt.Fprintf(out, "profllm sim: the data set %s is not read: the prompts are random\n", dataset)
	}
	if adapters := f.Values["lora-modules"]; len(adapters) > 0 {
		leave = append(leave, "served-model-name")
		add = append(add, "--served-model-name", adapters[0])
		fmt.Fprintf(out, "profllm sim: every request asks for the first adapter, %s\n", adapters[0])
	}
	return append(without(args, leave), add...)
}

// without leaves out the options that begin with one of the names, and their values.
func without(args, names []string) []string {
	var kept []string
	drop := false
	for _, a := range args {
		if program.IsFlag(a) {
			name, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimLeft(a, "-"), "_", "-"), "=")
			drop = slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(name, s) })
		}
		if !drop {
			kept = append(kept, a)
		}
	}
	return kept
}
