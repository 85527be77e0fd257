package startlog

import (
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/result"
)

// stamp begins a line of SGLang: [2026-08-08 03:34:38 DP0 TP1] text.
var stamp = lazyregexp.New(`^\[\d{4}-(\d\d-\d\d) (\d\d:\d\d:\d\d)((?: [A-Z]{2,4}\d{1,5}){0,6})\] `)

// sglang reads a line of SGLang, and reports whether it is one, and whether the start is over. The
// server says that it is ready after it answered a request of its own.
func (s *Start) sglang(c *clock, line string) (is, over bool) {
	m := stamp.FindStringSubmatchIndex(line)
	if m == nil {
		return false, false
	}
	c.set(line[m[2]:m[3]], line[m[4]:m[5]])
	text := line[m[1]:]
	if text == "The server is fired up and ready to roll!" {
		s.phase(c, result.PhaseReady, nil)
		return true, true
	}
	s.resolveSGLang(text)
	s.message(formsOfSGLang, c, line[m[6]:m[7]], text)
	return true, false
}

// formsOfSGLang are its messages, from the sources of 0.3 to 0.5.23. Its GB are GiB.
var formsOfSGLang = []form{
	{"Load weight begin", lazyregexp.New(`^Load weight begin\. `), (*Start).loads},
	{"Load weight end", lazyregexp.New(`^Load weight end\.(?: elapsed=` + real + ` s)?(?:[^\n]{0,400}? mem usage=` + gib + `)?`),
		func(s *Start, c *clock, _ string, v []float64) {
			highest(&s.said.WeightsGiB, v[1])
			s.phase(c, result.PhaseModelLoading, known(v[0]))
		}},
	// memory_pool.py; keys and values apart or together.
	{"KV Cache is allocated", lazyregexp.New(`^(?:\[[^]]{0,100}\] )?KV Cache is allocated\. [^\n]{0,200}?(?:K size: ` + gib + `, V size: ` + gib +
		`|KV size: ` + gib + `)`), (*Start).poolOfSGLang},
	// cuda_graph_runner.py; since 0.5.11 with the name of the graph.
	{"end. ", lazyregexp.New(`^Capture [A-Za-z ]{0,60}(?i:cuda graph) end\. (?:Time elapsed: |elapsed=)` + real +
		` s(?:[.,] [^\n]{0,100}?mem usage=` + gib + `)?`), (*Start).graphs},
	{"max_total_num_tokens", lazyregexp.New(`^max_total_num_tokens=` + whole + `,[^\n]{0,300}? context_len=` + whole),
		func(s *Start, _ *clock, _ string, v []float64) {
			lowest(&s.said.KVCacheTokens, int64(v[0]))
			if v[1] > 0 {
				s.concurrency(v[1], v[0]/v[1])
			}
		}},
}

// known is a number that a line has, nil for -1.
func known(v float64) *float64 {
	if v < 0 {
		return nil
	}
	return &v
}

// poolOfSGLang takes the memory of a worker's KV cache. That of a draft model comes second, and is
// left out. Each data-parallel rank is an engine.
func (s *Start) poolOfSGLang(_ *clock, tag string, v []float64) {
	worker := "worker" + tag
	if s.workers[worker] {
		return
	}
	if s.workers == nil {
		s.workers = map[string]bool{}
	}
	if len(s.workers) < mostEngines {
		s.workers[worker] = true
	}
	rank, _, _ := strings.Cut(strings.TrimSpace(tag), " ")
	if !strings.HasPrefix(rank, "DP") {
		rank = ""
	}
	s.engine(rank)
	if v[2] >= 0 {
		lowest(&s.said.KVCacheGiB, v[2])
	} else if v[0] >= 0 && v[1] >= 0 {
		lowest(&s.said.KVCacheGiB, v[0]+v[1])
	}
}

// resolvedOfSGLang is how SGLang begins the line with its options.
const resolvedOfSGLang = "server_args=ServerArgs("

// secretOption is an option whose value nobody may read in a record.
var secretOption = lazyregexp.New(`api_key|password|token$|secret`)

func (s *Start) resolveSGLang(text string) {
	list, ok := strings.CutPrefix(text, resolvedOfSGLang)
	if !ok || s.resolved != nil {
		return
	}
	s.resolved = options(strings.TrimSuffix(list, ")"))
	for name := range s.resolved {
		if secretOption.MatchString(name) {
			delete(s.resolved, name)
		}
	}
}
