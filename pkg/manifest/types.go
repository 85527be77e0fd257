package manifest

// The parts of Kubernetes' objects that profllm writes, in the order in which a person reads them.

type meta struct {
	Name        string            `yaml:"name,omitempty"`
	Namespace   string            `yaml:"namespace,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   meta   `yaml:"metadata"`
	Spec       any    `yaml:"spec"`
}

// graph is the spec of a DynamoGraphDeployment, nvidia.com/v1beta1.
type graph struct {
	Backend     string            `yaml:"backendFramework,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
	Env         []envVar          `yaml:"env,omitempty"`
	Components  []component       `yaml:"components"`
}

type component struct {
	Name           string     `yaml:"name"`
	Type           string     `yaml:"type"`
	Replicas       int        `yaml:"replicas"`
	RuntimeVersion string     `yaml:"runtimeVersionOverride,omitempty"`
	Multinode      *multinode `yaml:"multinode,omitempty"`
	SharedMemory   string     `yaml:"sharedMemorySize,omitempty"`
	PodTemplate    pod        `yaml:"podTemplate"`
}

type multinode struct {
	NodeCount int `yaml:"nodeCount"`
}

// oldGraph is the same in nvidia.com/v1alpha1.
type oldGraph struct {
	Backend  string             `yaml:"backendFramework,omitempty"`
	Envs     []envVar           `yaml:"envs,omitempty"`
	PVCs     []oldClaim         `yaml:"pvcs,omitempty"`
	Services map[string]service `yaml:"services"`
}

type oldClaim struct {
	Name   string `yaml:"name"`
	Create bool   `yaml:"create"`
}

type service struct {
	Type         string        `yaml:"componentType"`
	SubType      string        `yaml:"subComponentType,omitempty"`
	Replicas     int           `yaml:"replicas"`
	Multinode    *multinode    `yaml:"multinode,omitempty"`
	EnvFrom      string        `yaml:"envFromSecret,omitempty"`
	Resources    *oldResources `yaml:"resources,omitempty"`
	SharedMemory *oldMemory    `yaml:"sharedMemory,omitempty"`
	Mounts       []oldMount    `yaml:"volumeMounts,omitempty"`
	PodMetadata  *meta         `yaml:"extraPodMetadata,omitempty"`
	PodSpec      oldPodSpec    `yaml:"extraPodSpec"`
}

type oldResources struct {
	Limits oldLimits `yaml:"limits"`
}

type oldLimits struct {
	GPU     string `yaml:"gpu,omitempty"`
	GPUType string `yaml:"gpuType,omitempty"`
}

type oldMemory struct {
	Size string `yaml:"size"`
}

type oldMount struct {
	Name  string `yaml:"name"`
	Point string `yaml:"mountPoint"`
}

type oldPodSpec struct {
	PullSecrets   []named           `yaml:"imagePullSecrets,omitempty"`
	NodeSelector  map[string]string `yaml:"nodeSelector,omitempty"`
	Tolerations   []toleration      `yaml:"tolerations,omitempty"`
	MainContainer container         `yaml:"mainContainer"`
}

type deployment struct {
	Replicas int      `yaml:"replicas"`
	Deadline int      `yaml:"progressDeadlineSeconds"`
	Strategy typed    `yaml:"strategy"`
	Selector selector `yaml:"selector"`
	Template pod      `yaml:"template"`
}

type typed struct {
	Type string `yaml:"type"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type clusterService struct {
	Selector map[string]string `yaml:"selector"`
	Ports    []servicePort     `yaml:"ports"`
}

type servicePort struct {
	Name string `yaml:"name"`
	Port int    `yaml:"port"`
}

type job struct {
	BackoffLimit int `yaml:"backoffLimit"`
	Deadline     int `yaml:"activeDeadlineSeconds"`
	TTL          int `yaml:"ttlSecondsAfterFinished"`
	Template     pod `yaml:"template"`
}

type pod struct {
	Metadata *meta   `yaml:"metadata,omitempty"`
	Spec     podSpec `yaml:"spec"`
}

type podSpec struct {
	RestartPolicy string            `yaml:"restartPolicy,omitempty"`
	Account       *bool             `yaml:"automountServiceAccountToken,omitempty"`
	Grace         int               `yaml:"terminationGracePeriodSeconds,omitempty"`
	PullSecrets   []named           `yaml:"imagePullSecrets,omitempty"`
	NodeSelector  map[string]string `yaml:"nodeSelector,omitempty"`
	Tolerations   []toleration      `yaml:"tolerations,omitempty"`
	Containers    []container       `yaml:"containers"`
	Volumes       []volume          `yaml:"volumes,omitempty"`
}

type named struct {
	Name string `yaml:"name"`
}

type toleration struct {
	Key      string `yaml:"key,omitempty"`
	Operator string `yaml:"operator,omitempty"`
	Value    string `yaml:"value,omitempty"`
	Effect   string `yaml:"effect,omitempty"`
}

type container struct {
	Name      string          `yaml:"name,omitempty"` // v1alpha1 has none
	Image     string          `yaml:"image"`
	Dir       string          `yaml:"workingDir,omitempty"`
	Command   []string        `yaml:"command,flow,omitempty"`
	Args      []string        `yaml:"args,omitempty"`
	Ports     []containerPort `yaml:"ports,omitempty"`
	Env       []envVar        `yaml:"env,omitempty"`
	EnvFrom   []envFrom       `yaml:"envFrom,omitempty"`
	Resources *resources      `yaml:"resources,omitempty"`
	Ready     *probe          `yaml:"readinessProbe,omitempty"`
	Mounts    []mount         `yaml:"volumeMounts,omitempty"`
}

type containerPort struct {
	Name string `yaml:"name"`
	Port int    `yaml:"containerPort"`
}

type envVar struct {
	Name  string     `yaml:"name"`
	Value string     `yaml:"value,omitempty"`
	From  *envSource `yaml:"valueFrom,omitempty"`
}

// podIP is the field of a pod that is its address.
const podIP = "status.podIP"

type envSource struct {
	Field fieldRef `yaml:"fieldRef"`
}

type fieldRef struct {
	Path string `yaml:"fieldPath"`
}

type envFrom struct {
	Secret named `yaml:"secretRef"`
}

type resources struct {
	Requests map[string]string `yaml:"requests,omitempty"`
	Limits   map[string]string `yaml:"limits,omitempty"`
}

type probe struct {
	HTTP      httpGet `yaml:"httpGet"`
	Period    int     `yaml:"periodSeconds"`
	Threshold int     `yaml:"failureThreshold"`
}

type httpGet struct {
	Path string `yaml:"path"`
	Port string `yaml:"port"`
}

type mount struct {
	Name string `yaml:"name"`
	Path string `yaml:"mountPath"`
}

type volume struct {
	Name  string    `yaml:"name"`
	Claim *claim    `yaml:"persistentVolumeClaim,omitempty"`
	Empty *emptyDir `yaml:"emptyDir,omitempty"`
}

type claim struct {
	Name string `yaml:"claimName"`
}

type emptyDir struct {
	Medium string `yaml:"medium,omitempty"`
	Limit  string `yaml:"sizeLimit,omitempty"`
}
