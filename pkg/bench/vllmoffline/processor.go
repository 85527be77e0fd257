package vllmoffline

import (
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// processorName is the name of the benchmark of vLLM's multimodal processor.
const processorName = "mm-processor"

// A stage is one that is kept, by its name in the file without _ms.
type stage struct {
	name string
	to   **result.Timing
}

func stagesOf(p *result.Processor) []stage {
	return []stage{
		{"preprocessor_total", &p.Preprocessing}, {"encoder_forward", &p.Encoder},
		{"apply_hf_processor", &p.HFProcessor}, {"get_mm_hashes", &p.Hashing},
		{"get_cache_missing_items", &p.CacheLookup}, {"merge_mm_kwargs", &p.Merging},
		{"apply_prompt_updates", &p.PromptUpdates},
	}
}

// processor reads the stages and the latency of requests. A file has percentiles of each, but no
// values, and nothing of a stage that had no call.
func (r *reader) processor(doc pyjson.Value, o *result.Offline) error {
	stages := doc.At("mm_processor_stats")
	if stages.Kind == pyjson.Absent || doc.At("mean_e2el_ms").Kind == pyjson.Absent {
		return errNoBench
	}
	p := &result.Processor{Completed: r.Int(doc.At("completed"), "completed"), Failed: r.Int(doc.At("failed"), "failed"),
		EncoderCalls: r.Count(doc.At("encoder_summary", "total_encoder_calls"), "total_encoder_calls")}
	p.E2EL = r.milliseconds("e2el", doc.At("mean_e2el_ms"), doc.At("median_e2el_ms"), doc.At("std_e2el_ms"))
	for _, pair := range doc.At("percentiles_e2el_ms").Items {
		if len(pair.Items) == 2 {
			r.percentile(p.E2EL, rankName(pair.Items[0].Num), pair.Items[1])
		}
	}
	p.E2EL.N = p.Completed
	for _, s := range stagesOf(p) {
		if v := stages.At(s.name + "_ms"); v.Kind != pyjson.Absent {
			*s.to = r.stage(s.name, v)
			(*s.to).N = p.Completed // each stage has one time of each request
		}
	}
	known := []string{"completed", "failed", "mean_e2el_ms", "median_e2el_ms", "std_e2el_ms", "percentiles_e2el_ms",
		"mm_processor_stats", "encoder_summary", "config", "timestamp"}
	if v := doc.At("config", "model"); v.Kind == pyjson.Text {
		r.part.Model = v.Str
	}
	r.identify(doc, func(key string) bool { return slices.Contains(known, key) })
	o.Processor = p
	return nil
}

// stage is the timing of one stage.
func (r *reader) stage(name string, v pyjson.Value) *result.Timing {
	t := r.milliseconds(name, v.At("mean"), v.At("median"), v.At("std"))
	for _, f := range v.Fields {
		rank, ok := strings.CutPrefix(f.Key, "p")
		if x, err := strconv.ParseFloat(rank, 64); ok && isRank(rank) && err == nil {
			r.percentile(t, rankName(x), f.Value)
		}
	}
	return t
}

// milliseconds is a timing of numbers in ms.
func (r *reader) milliseconds(key string, mean, median, std pyjson.Value) *result.Timing {
	t := &result.Timing{Percentiles: map[string]float64{}}
	if x := r.Number(mean, key); x != nil {
		t.Mean = new(*x / 1000)
	}
	if x := r.Number(std, key); x != nil {
		t.Std = new(*x / 1000)
	}
	r.percentile(t, "50", median)
	return t
}

func (r *reader) percentile(t *result.Timing, rank string, v pyjson.Value) {
	if x := r.Number(v, "p"+rank); x != nil && isRank(rank) {
		t.Percentiles[rank] = *x / 1000
	}
}

// rankName is a rank as records have it: 99 for vLLM's 99.0.
func rankName(rank float64) string { return strconv.FormatFloat(rank, 'f', -1, 64) }
