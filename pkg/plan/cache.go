package plan

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lazyregexp"
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

// ModelCacheEnv are the variables that make programs find models in ModelCache.
func (p *Plan) ModelCacheEnv() []Var {
	if p.ModelCache == "" {
		return nil
	}
	return []Var{{modelCacheVars[0], Text(p.ModelCache)}, {modelCacheVars[1], Text(path.Join(p.ModelCache, "hub"))}}
}

// modelCacheVars tell programs where Hugging Face's files are; the second is said too
// because an image may set it.
var modelCacheVars = []string{"HF_HOME", "HF_HUB_CACHE"}

// StepEnv gives the variables that an engine will have, of those that the plan and the
// submitting shell decide. Shell text is not evaluated.
func (p *Plan) StepEnv(shell func(name string) string) func(name string) string {
	set := map[string]string{}
	for _, v := range slices.Concat(p.ModelCacheEnv(), p.Env) {
		set[v.Name] = v.Value.String()
	}
	return func(name string) string {
		value, ok := set[name]
		if !ok && (p.Launcher == config.Bare || slices.Contains(p.Job.Export, name)) {
			return shell(name)
		}
		return value
	}
}

// MountSources are the paths on the nodes that containers of the run are given, once
// each, as they are written: an image's file, and what is mounted; none where no step
// has a container.
func (p *Plan) MountSources() []string {
	if !slices.ContainsFunc(p.steps(), func(s *Step) bool { return s.Container }) {
		return nil
	}
	var list []string
	if path.IsAbs(p.Image) {
		list = append(list, p.Image)
	}
	for _, m := range p.Mounts {
		if dir, _, _ := strings.Cut(m, ":"); path.IsAbs(dir) && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list
}

// OnHost is the path on the nodes of what an engine sees at a path; "" if that is in
// the image.
func (p *Plan) OnHost(inside string) string {
	if p.Launcher == config.Bare || inside == "" {
		return inside
	}
	found, longest := "", ""
	for _, m := range p.Mounts {
		source, target, _ := strings.Cut(m, ":")
		target, _, _ = strings.Cut(target, ":")
		if below, ok := strings.CutPrefix(inside+"/", path.Clean(target)+"/"); ok && len(target) > len(longest) {
			found, longest = path.Join(source, below), target
		}
	}
	return found
}

// notInFile are characters that the name of a cache's folder does without.
var notInFile = lazyregexp.New(`[^A-Za-z0-9._-]+`)

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
