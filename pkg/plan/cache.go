package plan

import (
	"cmp"
	"path"
	"regexp"
	"strings"
)

// CompileCache is where engines keep what they compile, on each node's own disk.
type CompileCache struct {
	Root string `json:"root"`
	Key  string `json:"key"` // of the image, or of the engine on the nodes
}

// CompileCacheVars are the variables that move the caches of compiled code, with a
// folder for each: vllm/envs.py (0.32), SGLang's environ.py (0.5), DeepGEMM,
// torch._inductor, torch.utils.cpp_extension, Triton, FlashInfer's jit/env.py and
// the CUDA driver's own for PTX. vLLM puts Inductor's and Triton's into its own.
var CompileCacheVars = []Var{
	{"CUDA_CACHE_PATH", Text("cuda")},
	{"DG_JIT_CACHE_DIR", Text("deep_gemm")},
	{"FLASHINFER_WORKSPACE_BASE", Text("flashinfer")},
	{"SGLANG_DG_CACHE_DIR", Text("deep_gemm")},
	{"TORCHINDUCTOR_CACHE_DIR", Text("inductor")},
	{"TORCH_EXTENSIONS_DIR", Text("torch_extensions")},
	{"TRITON_CACHE_DIR", Text("triton")},
	{"VLLM_CACHE_ROOT", Text("vllm")},
}

// notInFile are characters that the name of a cache's folder does without.
var notInFile = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// compileCache fills in where the engines of a service compile to. A simulated one
// compiles nothing.
func (p *Plan) compileCache(in Input) {
	root := in.System.CompileCache
	if root == "" || len(p.Roles) == 0 || p.Simulated {
		return
	}
	key := cmp.Or(p.ImageDigest, p.Image, strings.Join([]string{p.Launcher, p.Workload, p.Config.Engine}, "-"))
	key = strings.Trim(notInFile.ReplaceAllString(key, "_"), "_.-")
	p.CompileCache = &CompileCache{Root: path.Clean(root), Key: key}
}
