package dynamo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/sim/program"
)

// instance is a registered worker, as the frontend's /health lists it.
type instance struct {
	Component string            `json:"component"`
	Endpoint  string            `json:"endpoint"`
	Namespace string            `json:"namespace"`
	ID        uint64            `json:"instance_id"`
	Transport map[string]string `json:"transport"`
	Model     string            `json:"model,omitempty"`
	Simulated bool              `json:"simulated"`
}

// generate is the endpoint that answers requests for tokens.
const generate = "generate"

// folder is where workers register.
type folder string

// instances are the registered workers. What cannot be read yet is no worker yet.
func (f folder) instances() []instance {
	list := []instance{}
	entries, err := os.ReadDir(f.path())
	if err != nil {
		return list
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // it is being written
		}
		data, err := regular.ReadFile(f.path(e.Name()))
		var one instance
		if err == nil && json.Unmarshal(data, &one) == nil && one.Simulated {
			list = append(list, one)
		}
	}
	return list
}

func (f folder) path(name ...string) string {
	return filepath.Join(append([]string{string(f), "v1", "instances"}, name...)...)
}

// register adds count instances of a worker that answers at an address, and returns what removes
// them.
func (f folder) register(one instance, count int) (leave func(), err error) {
	var files []string
	leave = func() {
		for _, name := range files {
			os.Remove(name)
		}
	}
	if err := os.MkdirAll(f.path(), 0o755); err != nil {
		return leave, err
	}
	for range count {
		hex := program.HexText(8)
		one.ID, _ = strconv.ParseUint(hex, 16, 64) // 8 bytes
		data, err := json.Marshal(one)
		if err != nil {
			return leave, err
		}
		name := f.path(strings.Join([]string{one.Namespace, one.Component, one.Endpoint, hex}, "%2F"))
		if err := durable.WriteUnsynced(name, data); err != nil {
			return leave, err
		}
		files = append(files, name)
	}
	return leave, nil
}
