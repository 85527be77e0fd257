package run

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"

	"github.com/profllm/profllm/pkg/packed"
	"github.com/profllm/profllm/pkg/regular"
)

// named are files that say by their name that a run lies beside them: ours, CloudAI's,
// and those of load clients.
var named = map[string]bool{
	PlanFile: true, ImportFile: true, "test-run.toml": true, "vllm-bench.json": true, "sglang-bench.jsonl": true,
	"profile_export_aiperf.json": true, "profile_export_aiperf.csv": true, "profile_export_genai_perf.csv": true,
	"summary_lifecycle_metrics.json": true,
}

// common are names that other programs use too, by what they begin and end with. Such
// a file is a run's if one of the words stands near its beginning.
var common = []struct {
	begin, end string
	words      []string
}{
	{"", "benchmarks.json", []string{`"guidellm_version"`, `"generative_benchmark"`}},
	{"latency", ".json", []string{`"avg_latency"`}},
	{"throughput", ".json", []string{`"requests_per_second"`}},
	{"startup", ".json", []string{`_startup_times"`}},
	{"mm-processor", ".json", []string{`"mm_processor_stats"`}},
	{"results_", ".json", []string{`"alias"`, `_stderr"`}},
	{"vllm-gsm8k", "gsm8k.json", []string{`"invalid_rate"`}},
	{"lm_eval", ".json", []string{`"alias"`, `_stderr"`}},
	{SearchFile, "", []string{searchMark}},
}

// SearchFile is what `profllm bench search` leaves: beside its probes, in [RawDir] of a job's run. Outside
// of a job, the folder is one run, whose probes and capacity are none of their own.
const SearchFile = "search.json"

// SearchSchema is the version written into a SearchFile, and what every version's begins with is
// SearchSchemas.
const (
	SearchSchemas = "profllm.search/"
	SearchSchema  = SearchSchemas + "1"
)

// searchMark begins the schema that is named near the beginning of a SearchFile.
const searchMark = `"` + SearchSchemas

// IsSearch reports whether a file is one that a search left.
func IsSearch(file string) bool { return isRunFile(filepath.Dir(file), filepath.Base(file)) }

// ofSearch reports whether a folder of a search belongs to it, by its name.
func ofSearch(name string) bool {
	return strings.HasPrefix(name, "probe-") || name == "capacity" || name == "capacity-failed"
}

// PartOfSearch reports whether a directory is of a probe or of the capacity of a search, and so no run of
// its own.
func PartOfSearch(dir string) bool {
	above := filepath.Dir(dir)
	return ofSearch(filepath.Base(dir)) && (isRunFile(above, SearchFile) || isRunFile(above, SearchFile+".xz"))
}

// beginning is how much of a file of a common name is looked at.
const beginning = 32 << 10

// isRunFile reports whether a file, or the same with .xz, belongs to a run.
func isRunFile(dir, name string) bool {
	plain := strings.TrimSuffix(name, ".xz")
	if named[plain] || strings.HasPrefix(plain, "stage_") && strings.HasSuffix(plain, "_lifecycle_metrics.json") {
		return true
	}
	for _, c := range common {
		if !strings.HasPrefix(plain, c.begin) || !strings.HasSuffix(plain, c.end) {
			continue
		}
		head := head(filepath.Join(dir, name), plain != name)
		for _, word := range c.words {
			if bytes.Contains(head, []byte(word)) {
				return true
			}
		}
	}
	return false
}

// head is the beginning of a file; empty if it cannot be read.
func head(path string, isPacked bool) []byte {
	f, err := regular.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var r io.Reader = f
	if isPacked {
		if r, err = packed.NewReader(f); err != nil {
			return nil
		}
	}
	data, _ := io.ReadAll(io.LimitReader(r, beginning)) // what could be read is looked at
	return data
}
