package config

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/source"
)

// Kubernetes is [kubernetes] of a system file with scheduler "kubernetes". Its keys are profllm's
// own.
type Kubernetes struct {
	Context string `toml:"context"` // Context of the kubeconfig; default: its current one.
	// Version of DynamoGraphDeployment that the operator takes: "v1beta1", or "v1alpha1" for an old
	// one; default v1beta1.
	DynamoAPI string `toml:"dynamo_api"`
	// Image with AIPerf, GenAI-Perf or another client; vLLM's own runs in the servers' image.
	ClientImage  string `toml:"client_image"`
	ClientCPU    string `toml:"client_cpu"`    // Processors that the client's pod requests; default "4".
	ClientMemory string `toml:"client_memory"` // Memory that the client's pod requests; default "8Gi".
	// Image with profllm on its PATH, whose proxy stands before prefill and decode of a vLLM test.
	ProxyImage string `toml:"proxy_image"`
	// Secrets with the logins of registries, for every pod.
	ImagePullSecrets []string `toml:"image_pull_secrets"`
	TokenSecret      string   `toml:"token_secret"` // Secret with the key HF_TOKEN, for every pod; default: none.
	// Claim that exists and holds models; default: every pod fetches the model.
	ModelCache *ModelCache `toml:"model_cache"`
	// Name of the resource that a GPU is; default nvidia.com/gpu.
	GPUResource string `toml:"gpu_resource"`
	// /dev/shm of the servers, such as "16Gi"; default: the operator's 8Gi, or without Dynamo the
	// runtime's.
	SharedMemory string        `toml:"shared_memory"`
	NodeSelector *source.Table `toml:"node_selector"` // Labels of the nodes for servers.
	Tolerations  []Toleration  `toml:"tolerations"`   // Taints of nodes that servers tolerate.
	Labels       *source.Table `toml:"labels"`        // Further labels of every object and pod.
	Annotations  *source.Table `toml:"annotations"`   // Annotations of every pod.
}

// ModelCache is a volume claim for models.
type ModelCache struct {
	Claim string `toml:"claim,required"` // Name of the PersistentVolumeClaim.
	Path  string `toml:"path"`           // Where it is mounted, which HF_HOME names; default /models.
}

// Toleration is one taint that a pod tolerates.
type Toleration struct {
	Key      string `toml:"key"`      // Key of the taint; default: every key.
	Operator string `toml:"operator"` // "Exists" or "Equal"; default Equal.
	Value    string `toml:"value"`    // Value of the taint, with Equal.
	Effect   string `toml:"effect"`   // "NoSchedule", "PreferNoSchedule" or "NoExecute"; default: all.
}

// Versions of DynamoGraphDeployment.
const (
	V1Beta1  = "v1beta1"
	V1Alpha1 = "v1alpha1"
)

const kubernetes = "kubernetes"

// Kube is the table of a system with scheduler "kubernetes", with defaults; nil for any other.
func (s *System) Kube() *Kubernetes {
	if s.Scheduler != kubernetes {
		return nil
	}
	k := Kubernetes{}
	if s.Kubernetes != nil {
		k = *s.Kubernetes
	}
	k.DynamoAPI, k.GPUResource = cmp.Or(k.DynamoAPI, V1Beta1), cmp.Or(k.GPUResource, "nvidia.com/gpu")
	k.ClientCPU, k.ClientMemory = cmp.Or(k.ClientCPU, "4"), cmp.Or(k.ClientMemory, "8Gi")
	if k.ModelCache != nil {
		k.ModelCache = &ModelCache{Claim: k.ModelCache.Claim, Path: cmp.Or(k.ModelCache.Path, "/models")}
	}
	return &k
}

// KubePos is where [kubernetes] stands, or the file without it.
func (s *System) KubePos() source.Pos { return s.kubePos }

// kubeKeys are those that only a system with scheduler "kubernetes" has.
var kubeKeys = []string{"kube_config_path", "default_namespace", "kubernetes", "use_host_network"}

// slurmKeys are those that mean nothing to Kubernetes, and what to write there.
var slurmKeys = []struct{ key, mend string }{
	{"default_partition", ""}, {"partitions", ""}, {"account", ""}, {"qos", ""}, {"reservation", ""}, {"constraint",
		""},
	{"distribution", ""}, {"mpi", ""}, {"ntasks_per_node", ""}, {"supports_gpu_directives", ""},
	{"supports_gpu_directives_cache", ""}, {"extra_srun_args", ""}, {"extra_sbatch_args", ""}, {"export", ""},
	{"prologue", ""}, {"preflight", ""}, {"cache_docker_images_locally", ""}, {"binary", ""},
	{"container_mount_home", ""}, {"container_args", ""}, {"container_rdma", ""}, {"container_security", ""},
	{"launcher", ""}, {"network", "write the variables in [global_env_vars]"},
	{"socket_interface", "write NCCL_SOCKET_IFNAME in [global_env_vars]"},
	{"compile_cache", ""}, {"hf_home_path", "write model_cache = { claim = \"NAME\" } in [kubernetes]"},
}

// checkScheduler refuses keys of another scheduler than the system's.
func (s *System) checkScheduler(t *source.Table) error {
	var c source.Complaints
	if s.Scheduler != kubernetes {
		for _, key := range kubeKeys {
			if t.Has(key) {
				c.Add(source.Errorf(t.KeyPos(key), "%s is a key of systems with scheduler = %q, and this one's is %q",
					key, kubernetes,
					s.Scheduler).Hintf("remove it, or write scheduler = %q", kubernetes))
			}
		}
		return c.Err()
	}
	for _, k := range slurmKeys {
		if t.Has(k.key) {
			c.Add(source.Errorf(t.KeyPos(k.key), "%s means nothing to Kubernetes", k.key).
				Hintf("%s", cmp.Or(k.mend, "remove it")))
		}
	}
	if t.Has("use_host_network") {
		c.Add(source.Errorf(t.KeyPos("use_host_network"),
			"use_host_network is not supported: pods have the cluster's network").
			Hintf("remove it"))
	}
	c.Add(s.checkKubernetes(t))
	return c.Err()
}

// Forms of names that the API server takes.
var (
	dnsLabel  = lazyregexp.New(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	dnsDomain = lazyregexp.New(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	labelName = lazyregexp.New(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	quantity  = lazyregexp.New(`^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`)
	positive  = lazyregexp.New(`[1-9]`)
	imageName = lazyregexp.New(`^[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*` +
		`(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)
)

// maxLabel bounds labels, their names and the names of namespaces; maxDomain the names of objects.
const maxLabel, maxDomain = 63, 253

// CheckNamespace says why a name is none of a namespace.
func CheckNamespace(name string) string {
	switch {
	case len(name) > maxLabel:
		return "is too long: a namespace has 63 characters at most"
	case !dnsLabel.MatchString(name):
		return "is no name of a namespace: small letters, digits and - only, and neither first nor last a -"
	}
	return ""
}

// CheckObject says why a name is none of a secret or a claim.
func CheckObject(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxDomain:
		return "is too long: a name has 253 characters at most"
	case !dnsDomain.MatchString(name):
		return "is no name of an object: small letters, digits, - and . only, and neither first nor last a - or ."
	}
	return ""
}

// CheckImage says why a text names no image that a kubelet can pull.
func CheckImage(image string) string {
	switch {
	case strings.Contains(image, "#"):
		return "has the # of enroot"
	case strings.Contains(image, "://"):
		return "has a scheme"
	case strings.HasPrefix(image, "/") || strings.HasPrefix(image, ".") || strings.HasSuffix(image, ".sqsh"):
		return "is a file"
	case !imageName.MatchString(image):
		return "is no reference of an image"
	}
	return ""
}

// CheckLabel says why a text is no value of a label.
func CheckLabel(value string) string {
	switch {
	case len(value) > maxLabel:
		return "is too long: a label has 63 characters at most"
	case value != "" && !labelName.MatchString(value):
		return "is no value of a label: letters, digits, -, _ and . only, and the first and last a letter or digit"
	}
	return ""
}

// checkKey says why a text is no name of a label, an annotation or a resource.
func checkKey(key string) string {
	prefix, name, has := strings.Cut(key, "/")
	if !has {
		prefix, name = "", key
	}
	switch {
	case has && CheckObject(prefix) != "":
		return "has a prefix that is no domain name"
	case len(name) > maxLabel:
		return "is too long: behind the / it has 63 characters at most"
	case !labelName.MatchString(name):
		return "is no name: letters, digits, -, _ and . only, and the first and last a letter or digit"
	}
	return ""
}

// checkKubernetes checks what an API server would refuse, or what would be found only once pods
// wait for ever.
func (s *System) checkKubernetes(t *source.Table) error {
	var c source.Complaints
	say := func(t *source.Table, key, value, why, mend string) {
		if why == "" {
			return
		}
		err := source.Errorf(t.PosOf(key), "%s %q %s", key, value, why)
		if mend != "" {
			err = err.Hintf("%s", mend)
		}
		c.Add(err)
	}
	if s.DefaultNamespace == "" {
		c.Add(source.Errorf(t.PosOf("default_namespace"), "default_namespace is required: no namespace is assumed").
			Hintf("write default_namespace = \"NAME\", also if it is \"default\""))
	} else {
		say(t, "default_namespace", s.DefaultNamespace, CheckNamespace(s.DefaultNamespace),
			"kubectl get namespaces lists them")
	}
	s.kubePos = t.PosOf("kubernetes")
	own := t.Table("kubernetes")
	if s.Kubernetes == nil {
		return c.Err()
	}
	k := s.Kubernetes
	if strings.HasPrefix(k.Context, "-") || strings.ContainsAny(k.Context, " \t\n") {
		c.Add(source.Errorf(own.PosOf("context"), "context %q is no name of a context", k.Context).
			Hintf("kubectl config get-contexts lists them"))
	}
	if k.DynamoAPI != "" && k.DynamoAPI != V1Beta1 && k.DynamoAPI != V1Alpha1 {
		c.Add(source.Errorf(own.PosOf("dynamo_api"), "unknown dynamo_api %q", k.DynamoAPI).
			Hintf("%s", source.Suggest(k.DynamoAPI, []string{V1Beta1, V1Alpha1})))
	}
	for key, image := range map[string]string{"client_image": k.ClientImage, "proxy_image": k.ProxyImage} {
		if own.Has(key) {
			say(own, key, image, CheckImage(image), "write it as docker pull takes it: registry/name:tag")
		}
	}
	for i, name := range k.ImagePullSecrets {
		if why := CheckObject(name); why != "" {
			c.Add(source.Errorf(own.ElementPos("image_pull_secrets", i), "image_pull_secrets: %q %s", name, why).
				Hintf("kubectl get secrets lists them; those of type kubernetes.io/dockerconfigjson"))
		}
	}
	if why := CheckObject(k.TokenSecret); own.Has("token_secret") && why != "" {
		// without the value, which may be a token
		c.Add(source.Errorf(own.PosOf("token_secret"), "token_secret names no Secret: what it says %s", why).
			Hintf("name a Secret with the key HF_TOKEN; the token itself stands in no file of profllm"))
	}
	for key, text := range map[string]string{"client_cpu": k.ClientCPU, "client_memory": k.ClientMemory} {
		say(own, key, text, badQuantity(own, key, text, false), "write it as Kubernetes does: \"4\", \"500m\", \"8Gi\"")
	}
	say(own, "shared_memory", k.SharedMemory, badQuantity(own, "shared_memory", k.SharedMemory, true), "write \"16Gi\"")
	c.Add(k.checkResource(own))
	c.Add(k.checkCache(own.Table("model_cache")))
	c.Add(k.checkPlaces(own))
	return c.Err()
}

// checkResource refuses a name that no GPU has.
func (k *Kubernetes) checkResource(t *source.Table) error {
	why := checkKey(k.GPUResource)
	switch {
	case !t.Has("gpu_resource"):
		return nil
	case why == "" && !strings.Contains(k.GPUResource, "/"):
		why = "has no domain, and is none of Kubernetes' own resources"
	case why == "":
		return nil
	}
	return source.Errorf(t.PosOf("gpu_resource"), "gpu_resource %q %s", k.GPUResource, why).
		Hintf("write \"nvidia.com/gpu\", or the name of a MIG slice, such as \"nvidia.com/mig-1g.10gb\"")
}

// badQuantity says why a text is no quantity.
func badQuantity(t *source.Table, key, text string, zero bool) string {
	switch {
	case !t.Has(key):
		return ""
	case !quantity.MatchString(text):
		return "is no quantity of Kubernetes"
	case !zero && !positive.MatchString(strings.TrimRight(text, "mkKMGTPEi")):
		return "must be above 0"
	}
	return ""
}

func (k *Kubernetes) checkCache(t *source.Table) error {
	var c source.Complaints
	m := k.ModelCache
	if m == nil {
		return nil
	}
	if why := CheckObject(m.Claim); why != "" && t.Has("claim") {
		c.Add(source.Errorf(t.PosOf("claim"), "model_cache.claim %q %s", m.Claim, why).
			Hintf("kubectl get pvc lists the claims"))
	}
	switch clean := path.Clean(m.Path); {
	case m.Path == "":
	case !path.IsAbs(m.Path) || strings.Contains(m.Path, ":"):
		c.Add(source.Errorf(t.PosOf("path"), "model_cache.path %q is no absolute path without a colon", m.Path).
			Hintf("write path = \"/models\""))
	case clean == "/" || clean == "/profllm" || clean == "/dev/shm" || slices.Contains([]string{"/bin", "/etc", "/usr",
		"/proc", "/sys",
		"/dev"}, clean):
		c.Add(source.Errorf(t.PosOf("path"), "model_cache.path %q would hide what containers need", m.Path).
			Hintf("write path = \"/models\""))
	}
	return c.Err()
}

// effects and operators of tolerations.
var (
	effects   = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
	operators = []string{"Equal", "Exists"}
)

// ownLabels are the prefixes of labels that profllm, Kubernetes and Dynamo's operator set.
var ownLabels = []string{"profllm.io/", "nvidia.com/dynamo-", "kubernetes.io/", "k8s.io/", "batch.kubernetes.io/"}

// checkPlaces checks labels, selectors and tolerations.
func (k *Kubernetes) checkPlaces(t *source.Table) error {
	var c source.Complaints
	for _, list := range []string{"node_selector", "labels", "annotations"} {
		table := t.Table(list)
		for _, key := range table.Keys() {
			v := table.Get(key)
			text, ok := v.Text()
			why := checkKey(key)
			switch {
			case why != "":
				c.Add(source.Errorf(table.KeyPos(key), "%s: the key %q %s", list, key, why))
			case !ok:
				c.Add(source.Errorf(v.Pos, "%s.%s must be a text, not %s", list, key,
					v.Describe()).Hintf("write it in quotes"))
			case list != "annotations" && CheckLabel(text) != "":
				c.Add(source.Errorf(v.Pos, "%s.%s: the value %q %s", list, key, text, CheckLabel(text)))
			case list == "labels" && slices.ContainsFunc(ownLabels, func(p string) bool {
				return strings.HasPrefix(key,
					p)
			}):
				c.Add(source.Errorf(table.KeyPos(key),
					"labels.%s: such labels are set by profllm, Kubernetes or Dynamo's operator", key).
					Hintf("choose a prefix of your own"))
			}
		}
	}
	for i, x := range k.Tolerations {
		pos := t.ElementPos("tolerations", i)
		switch {
		case x.Operator != "" && !slices.Contains(operators, x.Operator):
			c.Add(source.Errorf(pos, "tolerations: unknown operator %q", x.Operator).Hintf("%s",
				source.Suggest(x.Operator, operators)))
		case x.Effect != "" && !slices.Contains(effects, x.Effect):
			c.Add(source.Errorf(pos, "tolerations: unknown effect %q", x.Effect).Hintf("%s", source.Suggest(x.Effect,
				effects)))
		case x.Operator == "Exists" && x.Value != "":
			c.Add(source.Errorf(pos, "tolerations: operator Exists takes no value, and there is %q", x.Value).
				Hintf("remove value, or write operator = \"Equal\""))
		case x.Key == "" && x.Operator != "Exists":
			c.Add(source.Errorf(pos,
				"tolerations: without a key the operator must be Exists").Hintf("write key, or operator = \"Exists\""))
		case x.Key != "" && checkKey(x.Key) != "":
			c.Add(source.Errorf(pos, "tolerations: the key %q %s", x.Key, checkKey(x.Key)))
		}
	}
	return c.Err()
}
