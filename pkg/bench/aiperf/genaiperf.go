package aiperf

import (
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// Deprecated is what a person should know who has GenAI-Perf measure.
const Deprecated = `client = "genai-perf": NVIDIA replaced GenAI-Perf by AIPerf, which has most of its options; ` +
	`write client = "aiperf". server_metrics_url is gpu_telemetry there`

// genPlanned are options of GenAI-Perf that profllm sets, and what to do instead.
var genPlanned = map[string]string{
	"model": planned["model_names"], "m": planned["model_names"], "url": planned["url"], "u": planned["url"],
	"artifact_dir": planned["output_artifact_dir"], "profile_export_file": planned["profile_export_prefix"],
}

// checkGenAI refuses options that profllm sets. The others are not checked: GenAI-Perf is no longer
// developed, and its last releases differ.
func checkGenAI(t *source.Table) error {
	var c source.Complaints
	first := map[string]string{}
	for _, key := range t.Keys() {
		plain := strings.ReplaceAll(key, "-", "_")
		if instead := genPlanned[plain]; instead != "" {
			c.Add(source.Errorf(t.KeyPos(key), "bench_cmd_args.%s: profllm sets this option itself", key).
				Hintf("%s", instead))
		}
		if before, twice := first[plain]; twice {
			c.Add(source.Errorf(t.KeyPos(key), "bench_cmd_args.%s is %s again, at %s", key, before, t.KeyPos(before)).
				Hintf("remove one of them"))
		}
		first[plain] = key
	}
	return c.Err()
}

// genAI are the options of GenAI-Perf, whose --url has no scheme.
func (l *Load) genAI(t plan.Target) []plan.Word {
	argv := l.model(t)
	argv = append(argv, l.endpoint()...)
	argv = append(argv, plan.Text("--url"), plan.Concat(t.Host, ":", t.Port))
	argv = append(argv, l.users()...)
	return append(argv, plan.Texts("--artifact-dir", t.Dir)...)
}
