package plan

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/source"
)

// KubernetesLauncher is the launcher of a plan whose steps are containers of pods.
const KubernetesLauncher = "kubernetes"

// kubeLoads is how long the loads of a test without a time limit may take, beside the time in which
// the service becomes ready. Nothing else would end a Job that hangs.
const kubeLoads = 4 * time.Hour

// onKubernetes plans a run whose service and clients are pods. No nodes, GPU ids or ports are
// chosen: a role is all instances of its kind, and its address is the name of a Service.
func (p *Plan) onKubernetes(in Input, k *config.Kubernetes) (*Plan, error) {
	if in.Simulated {
		return nil, source.Errorf(in.Test.Pos, "test %q: a rehearsal has no pods", in.Test.ID).
			Hintf("profllm rehearse SCENARIO without the system file of Kubernetes tries it")
	}
	var c source.Complaints
	p.Launcher, p.Kubernetes = KubernetesLauncher, newKubernetes(in, k)
	p.Job = Job{Name: jobName(in.Test.Name) + "." + p.RunID, Comment: "profllm:" + p.RunID,
		TimeLimit: Seconds(in.Limit), After: in.After}
	p.GPUHourUSD, p.Preflight = in.System.GPUHourUSD, nil
	c.Add(refuseOnKubernetes(in))
	c.Add(p.kubeEnvironment(in))
	service, err := deploy(in, k)
	if c.Add(err); err != nil {
		return nil, c.Err()
	}
	p.take(in, service, nil)
	p.Notes = slices.Concat(p.Notes, in.System.Warnings, kubeNotes(in))
	p.Kubernetes.take(service)
	c.Add(p.pods(in, service))
	for _, l := range in.Loads {
		load, err := p.load(l, service)
		c.Add(err)
		p.Loads = append(p.Loads, load)
	}
	c.Add(sentAgain(in, service))
	c.Add(p.fillMarks(in))
	c.Add(p.kubeClients(in, service, k))
	if c.Err() != nil {
		return nil, c.Err()
	}
	return p, nil
}

// deploy asks the workload for its pods.
func deploy(in Input, k *config.Kubernetes) (Service, error) {
	w, ok := in.Workload.(Deployer)
	if !ok {
		return Service{}, source.Errorf(in.Test.PosOf("test_template_name"), "test %q: a %s cannot run on Kubernetes",
			in.Test.ID,
			in.Test.Template).Hintf("AIDynamo, DynamoMocker and vllm can; run it on Slurm")
	}
	nodes, err := in.Test.Nodes()
	if err != nil {
		return Service{}, err
	}
	return w.Deploy(Cluster{Nodes: nodes, GPUsPerNode: in.System.GPUsPerNode, Dir: RunVolume, RunID: in.RunID,
		API: k.DynamoAPI, ProxyImage: k.ProxyImage})
}

// newKubernetes is what the system says of the place.
func newKubernetes(in Input, k *config.Kubernetes) *Kubernetes {
	x := &Kubernetes{
		Context: k.Context, Namespace: in.System.DefaultNamespace, Name: strings.ReplaceAll(strings.ToLower(in.RunID),
			"_", "-"),
		PullSecrets: k.ImagePullSecrets, TokenSecret: k.TokenSecret, ClientImage: k.ClientImage,
		Pods: Pods{GPUResource: k.GPUResource, SharedMemory: k.SharedMemory, ClientCPU: k.ClientCPU,
			ClientMemory: k.ClientMemory,
			NodeSelector: texts(k.NodeSelector), Labels: texts(k.Labels), Annotations: texts(k.Annotations)},
	}
	if file := in.System.KubeConfigPath; file != "" {
		x.Kubeconfig = in.abs(file)
	}
	if m := k.ModelCache; m != nil {
		x.ModelCache = &Claim{Name: m.Claim, Path: m.Path}
	}
	for _, t := range k.Tolerations {
		x.Pods.Tolerations = append(x.Pods.Tolerations, Toleration(t))
	}
	return x
}

// texts are the texts of a table.
func texts(t *source.Table) map[string]string {
	var m map[string]string
	for _, key := range t.Keys() {
		if m == nil {
			m = map[string]string{}
		}
		m[key], _ = t.Get(key).Text()
	}
	return m
}

// take takes over what the workload says of its pods.
func (k *Kubernetes) take(s Service) {
	if s.Graph != nil {
		k.Graph, k.Pods.Backend, k.Pods.RuntimeVersion = s.Graph.API, s.Graph.Backend, s.Graph.RuntimeVersion
	}
}

// pods checks the roles, and says how long they and the whole run have.
func (p *Plan) pods(in Input, s Service) error {
	var ready Seconds
	for i := range p.Roles {
		ready = max(ready, p.Roles[i].Timeout)
	}
	p.Kubernetes.Ready = ready
	p.Kubernetes.Limit = Seconds(in.Limit)
	switch {
	case in.Limit == 0:
		p.Kubernetes.Limit = ready + Seconds(kubeLoads)
		p.Notes = append(p.Notes,
			fmt.Sprintf("%s: without time_limit the run is ended %s after its service should have been ready",
				in.Test.Pos, quantity.Duration(kubeLoads)))
	case Seconds(in.Limit) <= ready:
		p.Kubernetes.Ready = Seconds(in.Limit / 10 * 9) // the client says then why nothing was measured
	}
	p.Job.TimeLimit = p.Kubernetes.Limit
	for i := range p.Ports {
		p.Ports[i].Step = 0
	}
	if s.Image == "" {
		return source.Errorf(in.Test.CmdArgs.Pos,
			"cmd_args.docker_image_url is required: a pod has an image").Hintf("name the image")
	}
	// enroot's form of a reference, which the same test has on Slurm
	p.Image = strings.Replace(strings.TrimPrefix(s.Image, "docker://"), "#", "/", 1)
	why := config.CheckImage(p.Image)
	if why == "" {
		return nil
	}
	return source.Errorf(in.Test.CmdArgs.PosOf("docker_image_url"),
		"docker_image_url %q %s, and no kubelet can pull it", s.Image, why).
		Hintf("write it as docker pull takes it: registry/name:tag")
}

// seen is a directory of the run as a client sees it.
func (p *Plan) seen(dir string) string {
	if p.Kubernetes == nil {
		return dir
	}
	rel, err := filepath.Rel(p.Dir, dir)
	if err != nil {
		return dir
	}
	return path.Join(RunVolume, rel)
}

// kubeClients checks that the clients are programs of an image, and chooses the image.
func (p *Plan) kubeClients(in Input, s Service, k *config.Kubernetes) error {
	var c source.Complaints
	vllm := true
	for i := range p.Loads {
		l := &p.Loads[i]
		if !strings.HasPrefix(l.Dir+"/", p.Dir+"/") {
			c.Add(source.Errorf(in.Test.Pos, "load %q is outside of the run", l.Name))
		}
		for j := range l.Clients {
			step := &l.Clients[j]
			if slices.ContainsFunc(step.Argv, func(w Word) bool {
				return slices.ContainsFunc(w,
					func(x Part) bool { return x.Self })
			}) {
				c.Add(source.Errorf(in.Test.PosOf("client"), "%s is profllm itself, which no image on Kubernetes has",
					step.Name).
					Hintf("set client = \"aiperf\", or client = \"vllm\" with an image that has vLLM"))
			}
			program, _ := step.Argv[0].Literal()
			vllm = vllm && program == "vllm"
		}
	}
	hasVLLM := s.Graph == nil || s.Graph.Backend == "vllm"
	switch {
	case vllm && hasVLLM: // of the release that serves
		p.Kubernetes.ClientImage = p.Image
	case p.Kubernetes.ClientImage != "":
	default:
		c.Add(source.Errorf(in.System.KubePos(), "kubernetes.client_image is missing: the servers' image %s has no %s",
			p.Image,
			cmp.Or(in.Loads[0].Client,
				"client")).Hintf("write client_image = \"IMAGE\" in [kubernetes], of an image with it"))
	}
	return c.Err()
}

// reservedEnv are variables that Dynamo's operator sets: with other values the graph would not come
// together.
var reservedEnv = []string{
	"DYN_NAMESPACE", "DYN_NAMESPACE_WORKER_SUFFIX", "DYN_COMPONENT", "DYN_DISCOVERY_BACKEND", "DYN_PARENT_DGD_K8S_NAME",
	"DYN_PARENT_DGD_K8S_NAMESPACE", "DYN_HTTP_PORT", "DYN_SYSTEM_PORT", "DYN_SYSTEM_ENABLED",
	"DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS",
	"POD_NAME", "POD_NAMESPACE", "POD_UID",
}

// tokenEnv are the names of Hugging Face's token.
var tokenEnv = []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}

// kubeEnvironment is the environment of all pods. The values of secrets are in Secrets, which the
// system names.
func (p *Plan) kubeEnvironment(in Input) error {
	var c source.Complaints
	visible, secrets, err := p.environment(in)
	c.Add(err)
	at := func(name string) source.Pos {
		if in.Test.Env.Has(name) {
			return in.Test.Env.PosOf(name)
		}
		return in.System.GlobalEnvVars.PosOf(name)
	}
	if visible != nil {
		p.Notes = append(p.Notes,
			fmt.Sprintf("%s: CUDA_VISIBLE_DEVICES has no effect: the cluster chooses the GPUs of a pod",
				at("CUDA_VISIBLE_DEVICES")))
	}
	for _, s := range secrets {
		switch {
		case slices.Contains(tokenEnv, s.Name) && p.Kubernetes.TokenSecret != "":
			p.Notes = append(p.Notes, fmt.Sprintf("%s: %s is the key HF_TOKEN of the Secret %s", s.pos, s.Name,
				p.Kubernetes.TokenSecret))
		case slices.Contains(tokenEnv, s.Name):
			c.Add(source.Errorf(s.pos, "%s: a pod has the token of a Secret only", s.Name).
				Hintf("kubectl create secret generic hf-token-secret --from-literal=HF_TOKEN=…, and token_secret = \"hf-token-secret\" in [kubernetes] of the system file"))
		default:
			c.Add(source.Errorf(s.pos, "%s: a secret of the submitting shell or of a file cannot be given to pods",
				s.Name).
				Hintf("add it as a key of the Secret that token_secret names: pods get every key as a variable"))
		}
	}
	p.Env = slices.DeleteFunc(p.Env, func(v Var) bool {
		switch text, _ := v.Value.Literal(); {
		case slices.ContainsFunc(v.Value, func(x Part) bool { return x.Shell != "" }):
			c.Add(source.Errorf(at(v.Name), "%s is shell text, and no shell expands the variables of a pod", v.Name).
				Hintf("write the value"))
		case slices.Contains(reservedEnv, v.Name) || strings.HasPrefix(v.Name, "KUBERNETES_"):
			c.Add(source.Errorf(at(v.Name), "%s is set by Dynamo's operator or by Kubernetes itself",
				v.Name).Hintf("remove it"))
		case v.Name == "HF_HOME" && p.Kubernetes.ModelCache != nil && text != p.Kubernetes.ModelCache.Path:
			c.Add(source.Errorf(at(v.Name), "HF_HOME is %q, but the model cache is mounted at %s", text,
				p.Kubernetes.ModelCache.Path).
				Hintf("remove it: profllm sets it, or set path of model_cache"))
		}
		return v.Name == "HF_HOME" && p.Kubernetes.ModelCache != nil
	})
	return c.Err()
}

// refuseOnKubernetes refuses what would need profllm, a shell or a folder of the nodes beside the
// pods.
func refuseOnKubernetes(in Input) error {
	var c source.Complaints
	t := &in.Test
	refuse := func(is bool, key, why, mend string) {
		if is {
			c.Add(source.Errorf(t.PosOf(key), "test %q: %s cannot work on Kubernetes: %s", t.ID, key, why).Hintf("%s",
				mend))
		}
	}
	const noProfllm, noFolder = "profllm does not run beside the servers there", "pods see no folder of the nodes"
	refuse(len(in.PreTest) > 0, "pre_test", "hooks run inside a job of Slurm",
		"remove pre_test, or check the cluster by a run of its own")
	refuse(len(in.PostTest) > 0, "post_test", "hooks run inside a job of Slurm", "remove post_test, or make it a test")
	refuse(len(t.Mounts) > 0, "extra_container_mounts", noFolder,
		"remove it; models come from model_cache of the system file, other files from the image")
	refuse(len(t.GitRepos) > 0, "git_repos", noFolder, "build an image with the repository")
	refuse(t.ProxyRepo != nil, "proxy_script_repo", noFolder, "build an image with the repository")
	refuse(len(t.Files.Keys()) > 0, "files", noFolder, "put them into the image")
	refuse(len(t.Helpers.Keys()) > 0, "helpers", noProfllm, "deploy them before, and write their address")
	refuse(t.CustomBash != nil, "custom_bash", "commands of pods are not shell text", "put it into the image")
	refuse(enabled(t.Nsys), "nsys", noProfllm, "remove it, or profile on Slurm")
	refuse(enabled(t.Viz), "viztracer", noProfllm, "remove it, or profile on Slurm")
	refuse(t.Torch != nil && enabled(t.Torch), "torch_profiler", noProfllm, "remove it, or profile on Slurm")
	refuse(t.Search != nil, "search", "profllm's own client makes the search, which no image there has",
		"write a sweep over the load")
	refuse(t.Repeat.Times > 1, "repeat", "the prefix cache cannot be emptied between two loads",
		"write iterations instead")
	refuse(len(in.APICheck) > 0, "api_check", noProfllm, "remove it; profllm check FRONTEND tests a service that is up")
	refuse(t.ClientNodes != 0, "client_nodes", "the client has a pod of its own already", "remove it")
	if t.Env.Has("CLOUDAI_RUNTIME_FILE") {
		refuse(true, "extra_env_vars", noFolder, "remove CLOUDAI_RUNTIME_FILE")
	}
	for _, l := range in.Loads {
		if l.Cache == CacheReset && t.Repeat.Times < 2 {
			c.Add(source.Errorf(l.Pos,
				"load %q: cache = \"reset\" cannot work on Kubernetes: a request reaches one pod of several", l.Name).
				Hintf("write cache = \"keep\", or a test for each load"))
		}
	}
	return c.Err()
}

// kubeNotes are the keys of Slurm in the test, which are read and do nothing.
func kubeNotes(in Input) (notes []string) {
	t := &in.Test
	for _, x := range []struct {
		key string
		is  bool
		why string
	}{
		{"nodes", len(t.NodeLists) > 0, "the cluster chooses nodes"},
		{"exclude_nodes", len(t.ExcludeNodes) > 0,
			"the cluster chooses nodes; node_selector of the system file restricts them"},
		{"num_nodes", t.Table.Has("num_nodes"), "each role says how many workers it has"},
		{"slurm", t.Table.Has("slurm"), "Slurm has no part in it"},
		{"extra_srun_args", len(t.ExtraSrunArgs) > 0, "Slurm has no part in it"},
		{"launcher", t.Launcher != "", "pods are started by Kubernetes"},
		{"network", t.Network != "", "write the variables in extra_env_vars"},
		{"preflight", t.Preflight != nil, "profllm sees no node"},
		{"telemetry", t.Table.Has("telemetry"), "profllm sees no GPU"},
	} {
		if x.is {
			notes = append(notes, fmt.Sprintf("%s: %s has no effect on Kubernetes: %s", t.PosOf(x.key), x.key, x.why))
		}
	}
	return notes
}
