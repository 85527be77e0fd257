package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/profllm/profllm/pkg/plan"
)

// object is what profllm reads of an object of any kind that a run has.
type object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
	Status     status   `json:"status"`

	raw json.RawMessage
}

type metadata struct {
	Name       string            `json:"name"`
	Namespace  string            `json:"namespace"`
	UID        string            `json:"uid"`
	Labels     map[string]string `json:"labels"`
	Created    time.Time         `json:"creationTimestamp"`
	Deleted    *time.Time        `json:"deletionTimestamp"`
	Finalizers []string          `json:"finalizers"`
	Generation int64             `json:"generation"`
	Owners     []ownerRef        `json:"ownerReferences"`
}

type ownerRef struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	UID  string `json:"uid"`
}

type spec struct {
	NodeName   string      `json:"nodeName"`
	Replicas   *int        `json:"replicas"`
	Containers []container `json:"containers"`
	Init       []container `json:"initContainers"`
	// of a Job
	Deadline float64 `json:"activeDeadlineSeconds"`
}

type container struct {
	Name      string `json:"name"`
	Image     string `json:"image"`
	Resources struct {
		Limits   map[string]quantity `json:"limits"`
		Requests map[string]quantity `json:"requests"`
	} `json:"resources"`
}

type status struct {
	Phase      string            `json:"phase"` // of a pod
	State      string            `json:"state"` // of a DynamoGraphDeployment
	Reason     string            `json:"reason"`
	Message    string            `json:"message"`
	Conditions []condition       `json:"conditions"`
	Containers []containerStatus `json:"containerStatuses"`
	Init       []containerStatus `json:"initContainerStatuses"`
	Observed   int64             `json:"observedGeneration"`
	Ready      int               `json:"readyReplicas"`
	Active     int               `json:"active"`
	StartTime  time.Time         `json:"startTime"`
	EndTime    time.Time         `json:"completionTime"`

	Allocatable map[string]quantity `json:"allocatable"` // of a node
}

type condition struct {
	Type     string    `json:"type"`
	Status   string    `json:"status"`
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Observed int64     `json:"observedGeneration"`
	Changed  time.Time `json:"lastTransitionTime"`
}

type containerStatus struct {
	Name     string         `json:"name"`
	Image    string         `json:"image"`
	Ready    bool           `json:"ready"`
	Restarts int            `json:"restartCount"`
	State    containerState `json:"state"`
	Last     containerState `json:"lastState"`
}

type containerState struct {
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Running    *struct{} `json:"running"`
	Terminated *struct {
		ExitCode int       `json:"exitCode"`
		Reason   string    `json:"reason"`
		Message  string    `json:"message"`
		Started  time.Time `json:"startedAt"`
		Finished time.Time `json:"finishedAt"`
	} `json:"terminated"`
}

// quantity is an amount of a resource: 1, "8", "200m", "2Ti".
type quantity string

// UnmarshalJSON takes numbers as well.
func (q *quantity) UnmarshalJSON(data []byte) error {
	*q = quantity(strings.Trim(string(data), `"`))
	return nil
}

// units are the suffixes of quantities.
var units = []struct {
	suffix string
	times  float64
}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"m", 1e-3}, {"k", 1e3},
	{"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}}

// value is the amount as a number; ok is false if it is written in another way.
func (q quantity) value() (v float64, ok bool) {
	text, times := string(q), 1.0
	for _, u := range units {
		if n, found := strings.CutSuffix(text, u.suffix); found {
			text, times = n, u.times
			break
		}
	}
	n, err := fmt.Sscanf(text, "%g", &v)
	return v * times, err == nil && n == 1
}

// condition returns the condition of a type; the zero value if there is none.
func (o *object) condition(name string) condition {
	for _, c := range o.Status.Conditions {
		if c.Type == name {
			return c
		}
	}
	return condition{}
}

func (o *object) is(name string) bool { return o.condition(name).Status == "True" }

func (o *object) runID() string { return o.Metadata.Labels[plan.RunLabel] }

func (o *object) String() string { return strings.ToLower(o.Kind) + " " + o.Metadata.Name }

// The kinds that states are made of.
const (
	kindJob        = "Job"
	kindPod        = "Pod"
	kindDeployment = "Deployment"
	kindGraph      = "DynamoGraphDeployment"
)

// resources are the names of kinds on kubectl's command line, with their groups, because an
// operator may have a kind of the same name.
var resources = map[string]string{
	kindJob: "jobs.batch", kindPod: "pods", kindDeployment: "deployments.apps",
	kindGraph: "dynamographdeployments.nvidia.com", "Service": "services", "ConfigMap": "configmaps",
	"Secret": "secrets", "PersistentVolumeClaim": "persistentvolumeclaims",
}

// graphs are the versions of kindGraph in their group.
const graphGroup = "nvidia.com"

// list is what kubectl prints of several objects.
type list struct {
	Kind  string            `json:"kind"`
	Items []json.RawMessage `json:"items"`
}

// get lists the objects of some kinds whose labels are selected, "" for all.
func (k *Kube) get(ctx context.Context, at Place, kinds []string, selector string) ([]object, error) {
	args := []string{"get", strings.Join(kinds, ","), "--output=json"}
	if selector != "" {
		args = append(args, "--selector="+selector)
	}
	out, err := k.kubectl(ctx, at, nil, args...)
	if err != nil {
		return nil, err
	}
	return parseList(out)
}

// named gets objects by their names, as far as they are there.
func (k *Kube) named(ctx context.Context, at Place, names []string) ([]object, error) {
	args := append([]string{"get", "--output=json", "--ignore-not-found"}, names...)
	out, err := k.kubectl(ctx, at, nil, args...)
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		return nil, err
	}
	if o, err := parseObject(out); err != nil || o.Kind != "List" {
		return []object{o}, err
	}
	return parseList(out)
}

// parseList reads a List. Nothing at all is no empty List: it shows nothing of the cluster.
func parseList(data []byte) ([]object, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("kubectl get printed nothing, not even an empty list")
	}
	var l list
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, fmt.Errorf("kubectl get: %w", err)
	}
	if l.Kind != "List" {
		return nil, fmt.Errorf("kubectl get printed an object of kind %q, and no list", l.Kind)
	}
	objects := make([]object, 0, len(l.Items))
	for _, raw := range l.Items {
		o, err := parseObject(raw)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

func parseObject(raw []byte) (object, error) {
	o := object{raw: raw}
	if err := json.Unmarshal(raw, &o); err != nil {
		return object{}, fmt.Errorf("kubectl get: %w", err)
	}
	return o, nil
}

// byLabel selects the objects of one run.
func byLabel(runID string) string { return plan.RunLabel + "=" + runID }

// ofKind are the objects of a kind, by name.
func ofKind(objects []object, kind string) []*object {
	var some []*object
	for i := range objects {
		if objects[i].Kind == kind {
			some = append(some, &objects[i])
		}
	}
	slices.SortFunc(some, func(a, b *object) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return some
}
