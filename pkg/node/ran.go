package node

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/hub"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/redact"
)

// Ran is one fact about the processes of a step on this node.
type Ran struct {
	Step  string `json:"step"` // its name: the role's
	Kind  string `json:"kind"` // one of those below
	Name  string `json:"name,omitempty"`
	Value string `json:"value"`
}

// Kinds of Ran.
const (
	Variable  = "env"       // a variable that matters to engines
	Package   = "package"   // a Python package of note, with its version
	Revision  = "revision"  // the snapshot of the model
	Tokenizer = "tokenizer" // the digest of the tokenizer's file
)

// Served is what a step was told to load.
type Served struct {
	Step      string
	Model     string
	Revision  string // branch, tag or commit, "" for main
	Cache     string // where the engine was told to keep models, "" for where its variables say
	Tokenizer string // "": the model's
}

// mostFacts of one kind are told of a step: beyond, something else is wrong.
const mostFacts = 200

// LookAtSteps reads what the processes of a job's steps run with on this node, as far as
// /proc shows it. It also sees into containers, except those of another user, such as
// Docker's. The result contains no secret.
func LookAtSteps(proc, job, host string, steps []Served) []Ran {
	best := map[string]ran{}
	for _, pid := range readProcesses(proc).of(job, host) {
		if r := readRan(proc, pid); r.beats(best[r.step]) {
			best[r.step] = r
		}
	}
	var facts []Ran
	for _, s := range steps {
		if r, ok := best[s.Step]; ok {
			facts = append(facts, r.facts(proc, s)...)
		}
	}
	return facts
}

// of lists the processes of a job on a node, oldest number first.
func (t table) of(job, host string) []int {
	var pids []int
	for pid, p := range t {
		if p.job == job && p.step != "" && p.here(host) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// ran is a process of a step.
type ran struct {
	pid      int
	step     string
	env      map[string]string // all of it
	vars     []Ran             // what may be told
	packages []Ran
}

// beats prefers the process in which Python's libraries are, then the one that was
// given most: wrappers around a server have not all of its variables.
func (r ran) beats(other ran) bool {
	return r.pid != 0 && (other.pid == 0 ||
		cmp.Or(cmp.Compare(len(r.packages), len(other.packages)), cmp.Compare(len(r.vars), len(other.vars))) > 0)
}

func readRan(proc string, pid int) ran {
	r := ran{pid: pid, env: map[string]string{}}
	dir := filepath.Join(proc, strconv.Itoa(pid))
	data, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return ran{}
	}
	for kv := range bytes.SplitSeq(data, []byte{0}) {
		if name, value, ok := strings.Cut(string(kv), "="); ok {
			r.env[name] = value
		}
	}
	r.step = r.env["SLURM_JOB_NAME"]
	for name, value := range r.env {
		if telling(name, value) {
			r.vars = append(r.vars, Ran{r.step, Variable, name, shortened(value)})
		}
	}
	maps, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return r
	}
	defer maps.Close()
	for _, folder := range sitePackages(maps) {
		entries, err := os.ReadDir(filepath.Join(dir, "root", folder))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if name, version, ok := distInfo(e.Name()); ok && slices.Contains(ofNote, name) {
				r.packages = append(r.packages, Ran{r.step, Package, name, version})
			}
		}
	}
	return r
}

// facts adds what is known of the model, and puts all into an order.
func (r ran) facts(proc string, s Served) []Ran {
	byName := func(a, b Ran) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value)) }
	slices.SortFunc(r.vars, byName)
	slices.SortFunc(r.packages, byName)
	r.packages = slices.Compact(r.packages)
	facts := slices.Concat(r.vars[:min(len(r.vars), mostFacts)], r.packages[:min(len(r.packages), mostFacts)])
	if s.Model == "" {
		return facts
	}
	m := hub.Model{
		Name: s.Model, Ref: s.Revision, Root: filepath.Join(proc, strconv.Itoa(r.pid), "root"),
		Cache: cmp.Or(s.Cache, hub.Cache(func(name string) string { return r.env[name] })),
	}
	if rev := m.Revision(); rev != "" {
		facts = append(facts, Ran{r.step, Revision, s.Model, rev})
	}
	if s.Tokenizer != "" {
		m.Name, m.Ref = s.Tokenizer, ""
	}
	if digest := m.Tokenizer(); digest != "" {
		facts = append(facts, Ran{r.step, Tokenizer, m.Name, digest})
	}
	return facts
}

// Variables that change what an engine does, or how fast: by the beginnings of their
// names, or by the whole.
var (
	prefixes = strings.Fields(`VLLM_ SGLANG_ SGL_ NCCL_ UCX_ CUDA_ CUBLAS_ CUDNN_ TORCH PYTORCH_ TRITON_ FLASHINFER_ NVSHMEM_ NIXL_ LMCACHE_
		DYN_ RAY_ OMP_ MKL_ KMP_ GLOO_ FI_ MALLOC_ ROCR_ HIP_ HSA_`)
	whole = strings.Fields(`HF_HOME HF_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE TOKENIZERS_PARALLELISM NVIDIA_VISIBLE_DEVICES LD_PRELOAD
		LD_LIBRARY_PATH PYTHONPATH PYTHONHASHSEED VIRTUAL_ENV CONDA_PREFIX`)
)

// telling reports whether a variable may and shall be told. TOKENIZERS_PARALLELISM
// is no token.
func telling(name, value string) bool {
	if slices.Contains(whole, name) {
		return !redact.Shaped(value)
	}
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) &&
		!private(name) && !(keys.MatchString(name) && !digits.MatchString(value)) && !redact.Shaped(name+"="+value)
}

var (
	keys   = lazyregexp.New(`(?i)(?:^|_)(?:keys?|tokens)(?:_|$)`) // RAY_TLS_SERVER_KEY
	digits = lazyregexp.New(`^\d*$`)                              // VLLM_MAX_TOKENS_PER_EXPERT=65536
)

// private reports whether a name, or what it begins with, is that of a secret: what
// VLLM_API_KEY_FILE and RAY_AUTH_MODE say is nobody's business either.
func private(name string) bool {
	for at, r := range name + "_" {
		if r == '_' && redact.Key(name[:at]) {
			return true
		}
	}
	return false
}

// ofNote are the packages that make an engine fast or slow, as PyPI spells them.
var ofNote = strings.Fields(`vllm sglang sgl-kernel torch transformers tokenizers triton flashinfer-python flash-attn xformers compressed-tensors
	nixl nixl-cu12 nixl-cu13 ray lmcache ai-dynamo ai-dynamo-runtime tensorrt-llm deep-ep deep-gemm mooncake-transfer-engine aiperf numpy
	nvidia-nccl-cu12 nvidia-nccl-cu13 nvidia-cudnn-cu12 nvidia-cudnn-cu13 nvidia-cublas-cu12 nvidia-cublas nvidia-cuda-runtime-cu12 nvidia-cuda-runtime
	nvidia-nvshmem-cu12 nvidia-nvshmem-cu13`)

// distInfo reads the name of the folder that an installed package has (PEP 376, the
// name as PEP 503 compares it).
func distInfo(folder string) (name, version string, ok bool) {
	base, ok := strings.CutSuffix(folder, ".dist-info")
	name, version, found := strings.Cut(base, "-")
	if !ok || !found || name == "" || version == "" || len(folder) > 200 ||
		strings.ContainsFunc(folder, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", "", false
	}
	return strings.Trim(separators.ReplaceAllString(strings.ToLower(name), "-"), "-"), version, true
}

var separators = lazyregexp.New(`[-_.]+`)

// mostFolders is how many folders of packages a process has at most.
const mostFolders = 4

// sitePackages lists the folders of packages from which a process has libraries: the
// lines of /proc/PID/maps name them as the process sees them.
func sitePackages(maps io.Reader) []string {
	var list []string
	scan := bufio.NewScanner(io.LimitReader(maps, 16<<20))
	scan.Buffer(make([]byte, 0, 8<<10), 64<<10)
	for scan.Scan() && len(list) < mostFolders {
		_, file, ok := strings.Cut(scan.Text(), "/")
		for _, name := range []string{"/site-packages/", "/dist-packages/"} {
			if i := strings.Index(file, name); ok && i >= 0 {
				folder := "/" + file[:i+len(name)-1]
				if !slices.Contains(list, folder) && filepath.Clean(folder) == folder {
					list = append(list, folder)
				}
			}
		}
	}
	return list
}
