package failure

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// headSize is how much of the front of a log is read to guess who wrote it.
const headSize = 64 << 10

// writers are what programs print first, in the order in which they are tried: a
// client of vLLM is a vLLM program as well, and a server under Slurm prints what
// Slurm prints.
var writers = []struct {
	role string
	re   *lazyregexp.Regexp
}{
	{"queue", lazyregexp.New(`(?m)^\s*JOBID\s+(?:PARTITION|NAME|USER|ST)\b|^JobId=\d+ (?:Array\S+ )*JobName=`)},
	{"node", lazyregexp.New(`(?m)^(?:\[ *\d{1,7}\.\d{6}\]|\w{3} +\d+ [\d:]{8} \S+ kernel:) `)},
	{"dynamo", lazyregexp.New(`"caller":"(?:embed|etcdmain)/|Starting nats-server|\[INF\] +Version: +2\.`)},
	{"client", lazyregexp.New(`subparser='bench', bench_type='serve'|Starting initial single prompt test run|Starting main benchmark run|Traffic request rate: |` +
		`Serving Benchmark Result|usage: vllm bench serve|vllm bench serve: error: |(?i:\baiperf\b|genai-perf|\bguidellm\b|lm_eval|inference[-_]perf)|sglang[./]bench(?:_|mark[./])serving|benchmark_serving\.py|(?m:^curl: \(\d+\))`)},
	{"prefill", lazyregexp.New(`[,{(] ?['"]?kv_role['"]?[=:] ?['"]kv_producer|disaggregation_mode=['"]prefill|is_prefill_worker=True`)},
	{"decode", lazyregexp.New(`[,{(] ?['"]?kv_role['"]?[=:] ?['"]kv_consumer|disaggregation_mode=['"]decode|is_decode_worker=True`)},
	{"offline", lazyregexp.New(`subparser='bench', bench_type='|usage: vllm bench (?:latency|throughput|startup)`)},
	{"server", lazyregexp.New(`vLLM API server version|\[api_server\.py:\d+\]|\((?:APIServer|EngineCore\w*) pid=|non-default args: |vllm serve: error: |usage: vllm serve|\bvllm: error: |` +
		`server_args=ServerArgs\(|sglang[./](?:srt|launch_server)|launch_server\.py: error: |\[vllm\]|TensorRT-LLM|text_generation_launcher|dynamo_llm::mocker: |dynamo/(?:mocker|vllm|sglang)/`)},
	{"proxy", lazyregexp.New(`profllm proxy|(?i:disagg\w*_proxy|toy_proxy|\bproxy_server)|dynamo[./]frontend|dynamo_llm::http::service\b|sglang[_:](?:router|model_gateway)|\[(?:warn|error|notice)\] \d+#\d+: |upstream prematurely closed`)},
	{"ray", lazyregexp.New(`(?:scripts|node|services|worker|log_monitor)\.py:\d+ -- |Ray runtime started|Local node IP: |Usage: ray |\braylet\b|\(gcs_server\)`)},
	{"submit", lazyregexp.New(`(?m)^(?:sbatch|salloc): error: |^Submitted batch job \d+`)},
	{"job", lazyregexp.New(`(?m)^(?:\d+: )?(?:srun|slurmstepd|slurmd|pyxis): |\bSLURM_JOB_ID=`)},
	{"proxy", lazyregexp.New(`Uvicorn running on |Started server process \[`)},
}

// byName are the words of file names that tell the writer, in the order in which they
// are tried.
var byName = []struct {
	role string
	re   *lazyregexp.Regexp
}{
	{"queue", lazyregexp.New(`^(?:squeue|queue|pending)$`)},
	{"submit", lazyregexp.New(`^(?:sbatch|submit|salloc)$`)},
	{"client", lazyregexp.New(`^(?:client|bench|benchmark|load|loadgen|eval|gsm8k|aiperf|guidellm|genai)$`)},
	{"proxy", lazyregexp.New(`^(?:proxy|router|frontend|gateway|ingress|nginx|lb)$`)},
	{"prefill", lazyregexp.New(`^prefills?\d*$`)},
	{"decode", lazyregexp.New(`^decodes?\d*$`)},
	{"ray", lazyregexp.New(`^(?:ray|raylet|gcs|head|worker)$`)},
	{"dynamo", lazyregexp.New(`^(?:dynamo|etcd|nats)$`)},
	{"server", lazyregexp.New(`^(?:serve|server|vllm|sglang|engine|api|tgi|trtllm)$`)},
	{"node", lazyregexp.New(`^(?:dmesg|kernel|kern|syslog)$`)},
	{"job", lazyregexp.New(`^(?:slurm|srun|job|batch|stderr|stdout)$`)},
}

var nameWords = lazyregexp.New(`[A-Za-z]+`)

// Origin guesses the role that wrote a log that no plan knows: from what it says
// first, packed by xz or not, and only then from its name. It returns "", which
// stands for every role, if neither tells.
func Origin(log io.Reader, name string) (string, error) {
	text, _, err := unpack(bufio.NewReaderSize(log, headSize))
	if err != nil {
		return ofName(name), err
	}
	head := make([]byte, headSize)
	n, err := io.ReadFull(text, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ofName(name), err
	}
	if role := ofText(stripANSI(head[:n])); role != "" {
		return role, nil
	}
	return ofName(name), nil
}

func ofText(head []byte) string {
	for _, w := range writers {
		if w.re.Match(head) {
			return w.role
		}
	}
	return ""
}

// ofName takes the role from a word of the file's name, else of its folder's.
func ofName(name string) string {
	for _, part := range []string{path.Base(name), path.Base(path.Dir(name))} {
		words := nameWords.FindAllString(strings.ToLower(part), -1)
		for _, n := range byName {
			for _, w := range words {
				if n.re.MatchString(w) {
					return n.role
				}
			}
		}
	}
	return ""
}

// IsText reports whether a file with such a front may be a log: text, or packed by xz.
func IsText(head []byte) bool {
	return bytes.HasPrefix(head, xzMagic) || bytes.IndexByte(head, 0) < 0
}
