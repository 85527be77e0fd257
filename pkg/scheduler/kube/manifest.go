package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	json "github.com/go-json-experiment/json/v1"
	"go.yaml.in/yaml/v3"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// mostObjects is how many objects a manifest may have.
const mostObjects = 200

// document is one object of a manifest, as it is created.
type document struct {
	object
	tree map[string]any
}

// manifest is what a run consists of.
type manifest struct {
	job    document   // its clients
	others []document // its service, in the manifest's order
}

// readManifest reads a manifest, and makes sure that everything in it carries the run's label, so
// that everything is found again.
func readManifest(file string, p *plan.Plan) (*manifest, error) {
	data, err := run.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(data, p.RunID, p.Kubernetes.Namespace)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

func parseManifest(data []byte, runID, namespace string) (*manifest, error) {
	var m manifest
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var tree map[string]any
		err := d.Decode(&tree)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(tree) == 0 {
			continue
		}
		doc, err := newDocument(tree, runID, namespace)
		switch {
		case err != nil:
			return nil, err
		case doc.Kind != kindJob:
			m.others = append(m.others, doc)
		case m.job.tree != nil:
			return nil, errors.New("there are two Jobs, and a run has one")
		default:
			m.job = doc
		}
		if len(m.others) > mostObjects {
			return nil, fmt.Errorf("there are more than %d objects", mostObjects)
		}
	}
	if m.job.tree == nil {
		return nil, errors.New("there is no Job")
	}
	return &m, nil
}

func newDocument(tree map[string]any, runID, namespace string) (document, error) {
	raw, err := json.Marshal(tree)
	if err != nil {
		return document{}, err
	}
	var head struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return document{}, err
	}
	o := object{APIVersion: head.APIVersion, Kind: head.Kind, Metadata: head.Metadata}
	// its keys are matched exactly here, and in any case above
	meta, ok := tree["metadata"].(map[string]any)
	switch {
	case resources[o.Kind] == "" || o.Kind == kindPod:
		return document{}, fmt.Errorf("kind %q is none that a run has", o.Kind)
	case !ok:
		return document{}, fmt.Errorf("an object of kind %s has no metadata", o.Kind)
	case o.Metadata.Name == "":
		return document{}, fmt.Errorf("an object of kind %s has no name", o.Kind)
	case o.runID() != runID:
		return document{}, fmt.Errorf("%s has the label %s=%q, and the run is %q", o.String(), plan.RunLabel, o.runID(), runID)
	case o.Metadata.Namespace != "" && o.Metadata.Namespace != namespace:
		return document{}, fmt.Errorf("%s is of namespace %q, and the run of %q", o.String(), o.Metadata.Namespace, namespace)
	}
	meta["namespace"] = namespace
	o.Metadata.Namespace = namespace
	return document{object: o, tree: tree}, nil
}

// kinds are the kinds of the manifest, each once. kubectl lists one after the other, and the Job,
// which is made first, last: whoever sees a part of the service sees the Job too.
func (m *manifest) kinds() (list []string) {
	seen := map[string]bool{}
	for _, d := range m.others {
		if r := resources[d.Kind]; !seen[r] {
			seen[r] = true
			list = append(list, r)
		}
	}
	return append(list, resources[kindJob])
}

// all are the objects, the Job first.
func (m *manifest) all() []document { return append([]document{m.job}, m.others...) }

// asList is what kubectl reads of objects.
func asList(docs []document) ([]byte, error) {
	items := make([]any, len(docs))
	for i, d := range docs {
		items[i] = d.tree
	}
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

// ownedBy has an object removed with the Job. The API server removes it once the Job is gone: by
// hand, by its ttlSecondsAfterFinished, or with its namespace.
func (d *document) ownedBy(job *object) {
	d.tree["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{
		"apiVersion": job.APIVersion, "kind": job.Kind, "name": job.Metadata.Name, "uid": job.Metadata.UID,
	}}
}
