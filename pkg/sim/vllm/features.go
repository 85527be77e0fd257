package vllm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/program"
)

// connector is the JSON of --kv-transfer-config.
type connector struct {
	Name  string         `json:"kv_connector"`
	Role  string         `json:"kv_role"`
	Extra map[string]any `json:"kv_connector_extra_config"`
}

// inside are the connectors of a MultiConnector, none for others.
func (c connector) inside() (list []connector) {
	data, err := json.Marshal(c.Extra["connectors"])
	if err == nil {
		_ = json.Unmarshal(data, &list) // what is no list has no connectors inside
	}
	return list
}

// connectorOf reads --kv-transfer-config or its dotted form, and what --kv-offloading-size makes
// of it (vllm/config/vllm.py, 0.32).
func connectorOf(f *program.Flags) (connector, error) {
	c := connector{Name: f.Text("kv-transfer-config.kv-connector", ""), Role: f.Text("kv-transfer-config.kv-role", "")}
	text := f.Text("kv-transfer-config", "")
	if text != "" {
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return c, fmt.Errorf("--kv-transfer-config: %w", err)
		}
	}
	switch {
	case f.Text("kv-offloading-size", "") != "":
		c.Name, c.Role = "OffloadingConnector", "kv_both"
		if f.Text("kv-offloading-backend", "native") == "lmcache" {
			c.Name = mpConnector
		}
	case text != "" && c.Name == "":
		return c, errors.New("--kv-transfer-config: kv_connector is missing")
	}
	return c, nil
}

// readConnector takes the KV connector.
func readConnector(to *engine.Config, f *program.Flags) error {
	c, err := connectorOf(f)
	if err != nil || c.Name == "" {
		return err
	}
	if !slices.Contains([]string{"kv_producer", "kv_consumer", "kv_both"}, c.Role) {
		return fmt.Errorf("--kv-transfer-config: kv_role %q: want kv_producer, kv_consumer or kv_both", c.Role)
	}
	to.Connector, to.Consumer = c.Name, c.Role != "kv_producer"
	for _, one := range c.inside() {
		to.Inside = append(to.Inside, one.Name)
	}
	return nil
}

// pools reports whether the server embeds or scores, by --runner or the older --task.
func pools(f program.Flags) bool {
	return f.Text("runner", "") == "pooling" || slices.Contains([]string{"embed", "classify"}, f.Text("convert", "")) ||
		slices.Contains([]string{"embed", "embedding", "classify", "score", "reward"}, f.Text("task", ""))
}

// readAdapters takes the LoRA adapters, each NAME=PATH or a JSON object.
func readAdapters(to *engine.Config, f *program.Flags) error {
	for _, text := range f.Values["lora-modules"] {
		var a engine.Adapter
		if name, path, ok := strings.Cut(text, "="); ok && !strings.HasPrefix(text, "{") {
			a = engine.Adapter{Name: name, Path: path}
		} else if err := json.Unmarshal([]byte(text), &a); err != nil {
			return fmt.Errorf("--lora-modules: %q is neither NAME=PATH nor JSON: %w", text, err)
		}
		if a.Name == "" || a.Path == "" {
			return fmt.Errorf("--lora-modules: %q has no name or no path", text)
		}
		to.Adapters = append(to.Adapters, a)
	}
	if len(to.Adapters) > 0 && !f.Bool("enable-lora", false) {
		return errors.New("--lora-modules needs --enable-lora")
	}
	return nil
}

// readDraft takes how many tokens speculative decoding drafts.
func readDraft(to *engine.Config, f *program.Flags) error {
	text := f.Text("speculative-config", "")
	if text == "" {
		return nil
	}
	var v struct {
		Method string `json:"method"`
		Model  string `json:"model"`
		Tokens int    `json:"num_speculative_tokens"`
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return fmt.Errorf("--speculative-config: %w", err)
	}
	switch {
	case v.Method == "" && v.Model == "":
		return errors.New("--speculative-config: want a method or a model")
	case v.Tokens < 1:
		return errors.New("--speculative-config: want num_speculative_tokens, 1 or more")
	}
	to.Draft = v.Tokens
	return nil
}
