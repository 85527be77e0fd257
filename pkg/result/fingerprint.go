package result

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ImageSetting is the key of settings that names the image.
const ImageSetting = "cmd_args.docker_image_url"

// ModelSetting is the key of settings that names the model.
const ModelSetting = "cmd_args.model"

// Identity identifies a configuration: two runs with the same identity should give the
// same numbers on machines of one kind. Paths count by their last element. Times, hosts,
// ports, ids and places are not part of it, nor is what only some launchers show (the
// environment that a site adds, drivers, packages).
type Identity struct {
	Client        string            `json:"client"`
	Engine        string            `json:"engine"`
	EngineVersion string            `json:"engine_version"` // without a leading v
	GPU           string            `json:"gpu"`
	Image         string            `json:"image"` // its digest, or else its name
	Model         string            `json:"model"`
	ModelRevision string            `json:"model_revision"`
	Profiled      bool              `json:"profiled"`
	Settings      map[string]string `json:"settings"` // flags, load and environment, by key
	Simulated     bool              `json:"simulated"`
	Speed         int               `json:"simulated_speed,omitempty"` // of a rehearsal; 0: 1
	Topology      string            `json:"topology"`
}

// Identity returns what identifies the configuration of a run; parts that the record
// does not know are "".
func (r *Result) Identity() Identity {
	id := Identity{
		Client: r.Config.Benchmark.Kind, Simulated: r.Simulated, Speed: r.SimulatedSpeed,
		Profiled: r.Profiling != nil && r.Profiling.Enabled,
		Model:    ModelName(r.Config.Settings[ModelSetting]), GPU: r.GPU(), Topology: r.Placement.Topology(),
		Settings: portable(r.Config.Settings),
	}
	if p := r.Provenance; p != nil {
		id.Engine, id.ModelRevision = p.Engine, p.ModelRevision
		id.EngineVersion = plainVersion(cmp.Or(p.EngineVersion, p.EngineInstalled))
		id.Image = cmp.Or(p.ImageDigest, portableText(p.Image))
	}
	delete(id.Settings, ImageSetting)
	delete(id.Settings, ModelSetting)
	return id
}

// Fingerprint is "sha256:" and the SHA-256 of the identity's canonical JSON: keys
// sorted, no spaces, no HTML escapes. It is "" for a record that does not know what
// was asked.
func (r *Result) Fingerprint() (string, error) {
	if len(r.Config.Settings) == 0 {
		return "", nil
	}
	data, err := r.Identity().canonical()
	if err != nil {
		return "", fmt.Errorf("fingerprint of %s: %w", r.RunID, err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data)), nil
}

// canonical writes the fields in the order of their names, which is that of the type.
func (id Identity) canonical() ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(id); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// SeriesKey is equal for runs whose numbers belong to one time series: the same model,
// engine, topology, load, flags, precision and GPU model. The image, the engine's version,
// drivers and nodes are not part of it, because a series should show an image that got
// slower. r may be nil.
func SeriesKey(settings map[string]string, r *Result) string {
	s := portable(settings)
	delete(s, ImageSetting)
	s[" gpu"], s[" engine"] = r.GPU(), ""
	if r != nil {
		s[" topology"] = r.Placement.Topology()
		if r.SimulatedSpeed > 1 {
			s[" speed"] = strconv.Itoa(r.SimulatedSpeed)
		}
		if r.Provenance != nil {
			s[" engine"] = r.Provenance.Engine
		}
	}
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(h, "%q=%q\n", k, s[k])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// GPU is the kind of GPU that all nodes have, "" if that is not known. r may be nil.
func (r *Result) GPU() string {
	if r == nil || r.System == nil || r.System.HardwareInfo == nil {
		return ""
	}
	return r.System.HardwareInfo.GPU
}

// Topology is the shape of the service: instances of each kind of role, their nodes
// and GPUs, such as "decode 1 x 2 nodes x 8 GPUs, prefill 2 x 1 nodes x 4 GPUs". It is
// "" for a run that was placed nowhere. p may be nil.
func (p *Placement) Topology() string {
	if p == nil {
		return ""
	}
	count := map[string]int{}
	for _, r := range p.Roles {
		count[fmt.Sprintf("%s %%d x %d nodes x %d GPUs", strings.ReplaceAll(r.Role, "%", "%%"), r.Slice.Count,
			r.GPUsPerNode)]++
	}
	var list []string
	for _, format := range slices.Sorted(maps.Keys(count)) {
		list = append(list, fmt.Sprintf(format, count[format]))
	}
	return strings.Join(list, ", ")
}

// ModelName is a model without the folder it lies in. Of a folder of Hugging Face's
// cache it is the name there.
func ModelName(model string) string {
	for elem := range strings.SplitSeq(model, "/") {
		if name, ok := strings.CutPrefix(elem, "models--"); ok {
			return strings.ReplaceAll(name, "--", "/")
		}
	}
	return portableText(model)
}

func portable(settings map[string]string) map[string]string {
	out := make(map[string]string, len(settings))
	for k, v := range settings {
		if out[k] = v; !strings.HasSuffix(k, "endpoint") { // a path of URLs
			out[k] = portableText(v)
		}
	}
	if m, ok := settings[ModelSetting]; ok {
		out[ModelSetting] = ModelName(m)
	}
	return out
}

// portableText replaces each absolute path of a value, or of a list with colons, by
// its last element: the same files lie elsewhere on another machine.
func portableText(value string) string {
	if !strings.HasPrefix(value, "/") {
		return value
	}
	parts := strings.Split(value, ":")
	for i, p := range parts {
		if strings.HasPrefix(p, "/") {
			parts[i] = path.Base(p)
		}
	}
	return strings.Join(parts, ":")
}
