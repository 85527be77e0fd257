package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Times that are wrong are found without the single requests too, and what passes of them is too little to tell. Most
// faults of times are among the planted ones.
//
// covers: PL-V8, PL-V10, PL-V14, PL-V22, PL-V36
func TestRehearsedTimes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs rehearsals")
	}
	alone := func(load keys) keys { // without the single requests
		return keys{"num_prompts": load["num_prompts"], "random_output_len": load["random_output_len"],
			"request_rate": load["request_rate"], "max_concurrency": load["max_concurrency"], "save_detailed": ""}
	}
	closed := keys{"num_prompts": "80", "random_output_len": "40", "max_concurrency": "8"}
	cases := []planted{
		{faults: "serve:stall=6s@100ms", load: alone(closed), words: []string{"stalled"}},
		{faults: "client:step=-9s@1s", load: closed, words: []string{"times-impossible"}}, // to before the load began
		{faults: "client:step=40s@1s", load: alone(closed), words: []string{"stalled"}},
		{faults: "client:freeze=8s@1s", load: alone(paced), words: []string{"stalled"}},
		{faults: "serve:burst=8", load: alone(closed), words: []string{"itl-bundled"}},
		{faults: "serve:bundle=8", load: closed, words: []string{"itl-bundled"}},
		{faults: "client:pace=0.85", load: alone(paced), words: []string{"load-not-reached"}},
		{faults: "serve:stall=500ms@100ms", load: closed},
		{load: paced},
	}
	dirs, _ := rehearsePlanted(t, t.TempDir(), cases)
	for i, p := range cases {
		v := readResult(t, dirs[i]).Validity
		said := func(word string) bool { return slices.Contains(v.Words, word) }
		again := func() {
			dirs, _ := rehearsePlanted(t, t.TempDir(), []planted{p})
			v = readResult(t, dirs[0]).Validity
		}
		if len(p.words) > 0 {
			for try := 0; try < 2 && !said(p.words[0]); try++ { // a busy client may start after its fault is over
				again()
			}
			require.Subset(t, v.Words, p.words, "%+v: %s", p, failed(v))
			continue
		}
		words := []string{"stalled", "times-impossible", "sends-lumped", "itl-bundled", "load-not-reached", "summary-differs",
			"coarse-clock"}
		for try := 0; try < 2 && slices.ContainsFunc(words, said); try++ { // a busy machine reads late, for once
			again()
		}
		for _, word := range words {
			require.NotContains(t, v.Words, word, "%+v: %+v", p, v.Check(word))
		}
	}
}
