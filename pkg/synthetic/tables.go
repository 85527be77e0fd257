package synthetic

import (
	"fmt"

	"github.com/profllm/profllm/pkg/result"
)

// The tables of the model. Bandwidths and speeds are round figures from data sheets; releases and their
// order are those of the projects, their speeds are made up.

type gpu struct {
	name      string
	bandwidth float64 // GB/s
	compute   float64 // TFLOP/s of dense bfloat16
	memory    float64 // GB
	power     float64 // W
	driver    string
	cuda      string
}

var gpus = []gpu{
	{"NVIDIA H100 80GB HBM3", 3350, 990, 80, 700, "550.144.03", "12.4"},
	{"NVIDIA H200", 4800, 990, 141, 700, "570.133.20", "12.8"},
	{"NVIDIA A100-SXM4-80GB", 2039, 312, 80, 400, "535.183.06", "12.2"},
	{"NVIDIA B200", 8000, 2250, 180, 1000, "570.158.01", "12.8"},
	{"NVIDIA L40S", 864, 362, 48, 350, "550.90.07", "12.4"},
	{"NVIDIA GB200", 8000, 2500, 186, 1200, "575.57.08", "12.9"},
}

type model struct {
	name     string
	total    float64 // parameters, 10^9
	active   float64 // of a token
	leastTP  int
	revision string
}

var models = []model{
	{"Qwen/Qwen3-8B", 8.2, 8.2, 1, "b968826d9c46dd6066d109eabc6255188de91218"},
	{"meta-llama/Llama-3.1-8B-Instruct", 8, 8, 1, "0e9e39f249a16976918f6564b8830bc894c89659"},
	{"meta-llama/Llama-3.3-70B-Instruct", 70.6, 70.6, 4, "6f6073b423013f6a7d4d9f39144961bfbfbc386b"},
	{"Qwen/Qwen3-32B", 32.8, 32.8, 2, "9216db5781bf21249d130ec9da846c4624c16137"},
	{"openai/gpt-oss-120b", 117, 5.1, 1, "b5c939de8f754692c1647ca79fbf85e8c1e70f8a"},
	{"Qwen/Qwen3-235B-A22B", 235, 22, 8, "8efa61729bab8cf5c2ed0aafc4fd4ed1e6a9f0ca"},
	{"deepseek-ai/DeepSeek-R1", 671, 37, 8, "56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad"},
	{"mistralai/Mistral-Small-3.2-24B-Instruct", 23.6, 23.6, 1, "95a6d26c4bfb886c58daf9d3f7332c857cb27b42"},
}

type release struct {
	version string
	speed   float64 // of decoding, as a factor
	slower  float64 // time per output token; 1: no regression
}

type engine struct {
	name     string
	image    string
	releases []release // oldest first, each for an equal share of the time
}

var engines = []engine{
	{"vllm", "vllm/vllm-openai:v%s", []release{
		{"0.6.6", 1, 1}, {"0.7.3", 1.04, 1}, {"0.8.5", 1.12, 1}, {"0.9.2", 1.15, 1}, {"0.10.2", 1.2, 1},
		{"0.11.0", 1.22, 1}, {"0.12.0", 1.24, 1.09}, {"0.13.0", 1.26, 1}, {"0.14.1", 1.28, 1}, {"0.15.0", 1.3, 1},
	}},
	{"sglang", "lmsysorg/sglang:v%s", []release{
		{"0.4.0", 1.02, 1}, {"0.4.6", 1.1, 1}, {"0.4.9", 1.17, 1}, {"0.5.1", 1.2, 1.06}, {"0.5.4", 1.25, 1}, {"0.5.7", 1.27, 1},
	}},
	{"dynamo", "nvcr.io/nvidia/ai-dynamo/vllm-runtime:%s", []release{
		{"0.3.2", 1.08, 1}, {"0.4.1", 1.15, 1}, {"0.6.0", 1.2, 1}, {"0.7.0", 1.22, 1},
	}},
}

// at is the release in use, from 0 at the start of all runs to 1 at their end.
func (e engine) at(share float64) release {
	return e.releases[max(0, min(len(e.releases)-1, int(share*float64(len(e.releases)))))]
}

type suite struct{ name, scenario, test, partition, account string }

var suites = makeSuites()

func makeSuites() []suite {
	var list []suite
	for _, scenario := range []string{"nightly", "curve", "shapes", "regression", "capacity", "long-context", "quantised", "disagg"} {
		for i, test := range []string{"load", "rate", "mix", "peak", "soak"} {
			for team := range 3 {
				list = append(list, suite{
					name:     fmt.Sprintf("%s-%s-%d", scenario, test, team+1),
					scenario: scenario, test: test,
					partition: []string{"gpu", "gpu-long", "interactive"}[(i+team)%3],
					account:   []string{"serving", "research", "platform"}[team],
				})
			}
		}
	}
	return list
}

// A fault is why a run is invalid.
type fault struct {
	word   string // of the check that fails
	detail string
	status result.Status
	cause  string // of a run that failed; "" if it ended
	line   string
	next   string
}

var faults = []fault{
	{"request-errors", "3.1 % of the requests failed, more than 1 %", result.Partial, "", "", ""},
	{"gpu-idle", "GPU 3 of node-a was idle in 38 % of the window", result.Completed, "", "", ""},
	{"cache-warm", "71 % of the prompts' tokens were in the prefix cache, 0 % were planned", result.Completed, "", "", ""},
	{"result-missing", "no result of the client", result.Failed, "cuda-oom",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "lower gpu_memory_utilization or max_model_len"},
	{"client-bound", "the client needed 97 % of a CPU", result.Completed, "", "", ""},
	{"role-died", "decode ended with 1 during the load", result.Failed, "nccl-timeout",
		"Watchdog caught collective operation timeout", "check the fabric between the nodes of the run"},
	{"job-state", "TIMEOUT", result.Failed, "time-limit", "CANCELLED DUE TO TIME LIMIT", "raise time_limit"},
	{"instance-died", "one of 2 instances ended during the load", result.Partial, "engine-dead",
		"EngineDeadError: EngineCore encountered an issue.", "read the log of the instance"},
}
