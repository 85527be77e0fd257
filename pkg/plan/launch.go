package plan

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/source"
)

// An exposer is a Launcher. If Exposes is true, its containers see every variable of
// the job that their image does not set, and Container.Env travels as lines of a file,
// where a value with a line break would become several variables.
type exposer interface{ Exposes() bool }

// hostPaths are the variables among those that a job is given of the submitting shell
// (run.Export) which name places of the host, and mislead programs in a container.
// LD_LIBRARY_PATH is not among them: programs outside, such as srun, may need it.
var hostPaths = []string{
	"BASH_ENV", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH", "HF_HOME", "PYTHONHOME",
	"PYTHONPATH", "ROCM_PATH", "VIRTUAL_ENV",
}

// abs is a path of the site file, as the nodes understand it.
func (in *Input) abs(s string) string {
	if path.IsAbs(s) {
		return s
	}
	return path.Join(in.WorkDir, s)
}

// launch puts every containerised step into its container.
func (p *Plan) launch(in Input) error {
	install := in.abs(in.System.InstallPath)
	hf := in.abs(cmp.Or(in.System.HFHomePath, path.Join(install, "huggingface")))
	contained := in.LauncherName != config.Bare
	if err := p.mount(in, install, hf); err != nil && contained && p.Image != "" { // else nothing is mounted
		return err
	}
	if in.Staged.Path != "" {
		p.Image, p.ImageDigest, p.ImageSource = in.Staged.Path, in.Staged.Digest, in.Staged.Source
	}
	if strings.HasPrefix(p.Image, ".") { // a path to pyxis only if it is absolute (NVIDIA/pyxis#127)
		p.Image = in.abs(p.Image)
	}
	if p.compileCache(in); p.CompileCache != nil {
		p.Mounts = append(p.Mounts, p.CompileCache.Root+":"+p.CompileCache.Root)
	}
	p.sockets(in)
	if contained {
		p.Folders = []string{install, hf}
	}
	if contained || in.System.HFHomePath != "" {
		p.modelCache(hf)
	}
	if contained && p.Image != "" {
		if err := p.outputsMounted(in); err != nil {
			return err
		}
	}
	box := Container{
		Image: p.Image, Mounts: p.Mounts, MountHome: in.System.ContainerMountHome, Binary: p.Binary, Dir: p.Dir,
		Env: p.named(), Args: in.System.ContainerArgs, RDMA: in.System.RDMA(), Security: in.System.ContainerSecurity,
	}
	var inside []Var
	if x, ok := in.Launcher.(exposer); ok && x.Exposes() {
		inside = p.expose(&box)
	}
	return p.wrap(in, box, inside)
}

// wrap puts each step into its container. What several steps are refused for is said once.
func (p *Plan) wrap(in Input, box Container, inside []Var) error {
	var said []string
	refused := map[string][]string{} // the steps of each complaint
	for _, s := range p.steps() {
		if !s.Container {
			continue
		}
		s.Env = append(slices.Clone(inside), s.Env...)
		wrapped, err := in.Launcher.Wrap(*s, box.of(s.Image))
		if err != nil {
			text := err.Error()
			if refused[text] == nil {
				said = append(said, text)
			}
			if !slices.Contains(refused[text], s.Name) { // a client has a step for each load
				refused[text] = append(refused[text], s.Name)
			}
			continue
		}
		*s = wrapped
		if in.NoImage && !in.System.Standalone() { // there, nobody expects one
			in.NoImage = false // said once
			p.Notes = append(p.Notes, fmt.Sprintf("%s: there is no docker_image_url, so the steps run without a container, "+
				"with the nodes' own programs", in.Test.Pos))
		}
	}
	errs := make([]error, len(said))
	for i, text := range said {
		steps := "step " + refused[text][0]
		if len(refused[text]) > 1 {
			steps = "steps " + quantity.List(refused[text])
		}
		errs[i] = source.Errorf(in.Test.PosOf("launcher"), "launcher %s: %s: %s", in.LauncherName, steps, text)
	}
	return errors.Join(errs...)
}

// of is the container of a step that has an image of its own, or the same for "".
func (c Container) of(image string) Container {
	c.Image = cmp.Or(image, c.Image)
	return c
}

// mount lists what containers are given: CloudAI's mounts, and profllm's own. A path of
// the site that a list of mounts cannot hold is an error.
func (p *Plan) mount(in Input, install, hf string) error {
	own := p.Mounts
	p.Mounts = []string{p.Dir + ":/cloudai_run_results", install + ":/cloudai_install", p.Dir + ":" + p.Dir}
	for _, m := range in.Test.Mounts {
		text := in.workDir(m)
		if shellText.MatchString(text) {
			p.Notes = append(p.Notes,
				fmt.Sprintf("%s: the mount %q is passed unchanged; in CloudAI, the shell would expand it",
					in.Test.Pos, m))
		}
		p.Mounts = append(p.Mounts, text)
	}
	for _, m := range own {
		if !slices.Contains(p.Mounts, m) {
			p.Mounts = append(p.Mounts, m)
		}
	}
	repos := slices.Clone(in.Test.GitRepos)
	if in.Test.ProxyRepo != nil {
		repos = append(repos, *in.Test.ProxyRepo)
	}
	for _, r := range repos {
		p.Mounts = append(p.Mounts, path.Join(install, r.Directory())+":"+r.MountPoint())
	}
	p.Mounts = append(p.Mounts, hf+":/root/.cache/huggingface", hf+":"+hf)
	// the steps of a sweep lie side by side
	apart := func(l Load) bool { return !strings.HasPrefix(l.Dir+"/", p.Dir+"/") }
	beside := func(l LoadInput) bool { return l.Beside }
	if slices.ContainsFunc(p.Loads, apart) || slices.ContainsFunc(in.Loads, beside) {
		p.Mounts = append(p.Mounts, path.Dir(p.Dir)+":"+path.Dir(p.Dir))
	}
	for _, v := range p.Env {
		if file, ok := v.Value.Literal(); ok && v.Name == "NCCL_TOPO_FILE" && file != "" {
			p.Mounts = append(p.Mounts, in.abs(file)+":"+in.abs(file))
		}
	}
	for _, dir := range []struct{ key, path string }{{"output_path", p.Dir}, {"install_path", install},
		{"hf_home_path", hf}} {
		if strings.ContainsAny(dir.path, ":,") {
			return source.Errorf(in.System.Pos,
				"%s: %q is mounted into containers, but a colon or a comma would split the mount", dir.key, dir.path).
				Hintf("use a path without colons and commas, or launcher = \"bare\"")
		}
	}
	return nil
}

// workDir puts the working directory in the place of a leading $PWD, as the shell of
// CloudAI's script does, and makes a relative source absolute.
func (in *Input) workDir(mount string) string {
	from, rest, found := strings.Cut(mount, ":")
	for _, name := range []string{"$PWD", "${PWD}"} {
		if below, ok := strings.CutPrefix(from, name); ok && (below == "" || below[0] == '/') {
			from = path.Join(in.WorkDir, below)
		}
	}
	if strings.HasPrefix(from, "./") || strings.HasPrefix(from, "../") {
		from = path.Join(in.WorkDir, from)
	}
	if !found {
		return from
	}
	return from + ":" + rest
}

// modelCache makes engines look for models in hf, whatever their home, user and image
// are; containers have it mounted at its own path. A definition that names a cache has
// its way.
func (p *Plan) modelCache(hf string) {
	for _, name := range modelCacheVars {
		if slices.ContainsFunc(p.Env, func(v Var) bool { return v.Name == name }) ||
			slices.Contains(p.Job.Export, name) {
			return
		}
	}
	p.ModelCache = hf
}

// named lists the variables of the job that its containers are given.
func (p *Plan) named() []string {
	var names []string
	for _, v := range slices.Concat(p.Env, p.ModelCacheEnv()) {
		names = append(names, v.Name)
	}
	more := slices.DeleteFunc(slices.Clone(p.Job.Export), func(name string) bool { return name == config.ExportAll })
	if p.CompileCache != nil {
		for _, v := range CompileCacheVars {
			more = append(more, v.Name)
		}
	}
	if p.SocketInterface != "" {
		more = append(more, SocketVars...)
	}
	return union(names, more)
}

// expose prepares for containers that see the job's whole environment. Values with a
// line break leave the list of the container, and are returned: each step sets them
// itself. Those that only the job knows are to be looked at there.
func (p *Plan) expose(box *Container) (inside []Var) {
	if !slices.Contains(p.Job.Export, config.ExportAll) {
		p.Unset = slices.DeleteFunc(slices.Clone(hostPaths),
			func(name string) bool { return slices.Contains(box.Env, name) })
	}
	if i := slices.IndexFunc(p.Mounts, func(m string) bool { return strings.ContainsAny(m, " \t\\") }); i >= 0 {
		p.Notes = append(p.Notes,
			fmt.Sprintf("the mount %q has a space or a backslash, which works with pyxis only if enroot is newer than 4.1.2; a path without them, such as a symbolic link, always works", p.Mounts[i]))
	}
	p.OneLine = slices.Clone(p.Job.Export)
	for _, v := range p.Env {
		text, literal := v.Value.Literal()
		switch {
		case !literal:
			p.OneLine = append(p.OneLine, v.Name)
		case strings.Contains(text, "\n"):
			inside = append(inside, v)
			box.Env = slices.DeleteFunc(box.Env, func(name string) bool { return name == v.Name })
		}
	}
	return inside
}
