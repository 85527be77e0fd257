package job

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/run"
)

// Identity is what an engine reported about itself when every role was ready. Nothing else
// of its answers is kept, because SGLang's contain the API key.
type Identity struct {
	Models    []ServedModel `json:"models"`               // of /v1/models
	ModelPath string        `json:"model_path,omitempty"` // SGLang's; vLLM says it of each model
	Version   string        `json:"version,omitempty"`
}

// ServedModel is a name that clients may ask for.
type ServedModel struct {
	ID    string `json:"id"`
	Root  string `json:"root,omitempty"`     // where its weights came from; SGLang repeats the id
	Owner string `json:"owned_by,omitempty"` // the engine, by its own name
}

// IdentityFile is the name below raw/ of what a role said of itself.
func IdentityFile(role string) string { return "identity-" + role + ".json" }

// identityLimit bounds how long one engine may take to say what it is.
const identityLimit = 3 * time.Second

// versionPaths answer with the engine's version: vLLM's, SGLang's, and SGLang's
// before 0.5.
var versionPaths = []string{"/version", "/server_info", "/get_server_info"}

// identify asks every engine what it serves, so that the judgement can tell whether
// the numbers are of what was planned. One that does not say is no error here.
func (j *Job) identify(ctx context.Context, p *plan.Plan, place *run.Placement) {
	for i := range p.Roles {
		role := &p.Roles[i]
		if !role.Engine && !role.Router || role.Health.Serves != "" { // a worker of Dynamo leaves that to its frontend
			continue
		}
		id, err := identityOf(ctx, p, place, role)
		if err == nil {
			err = run.WriteJSON(j.path(run.RawDir, IdentityFile(role.Name)), id)
		}
		if err != nil {
			j.logf("cannot tell what %s serves: %v", role.Name, err)
		}
	}
}

func identityOf(ctx context.Context, p *plan.Plan, place *run.Placement, role *plan.Role) (id Identity, err error) {
	read := func(path string, into any) error {
		url, err := endpoint(p, place, role, path)
		if err != nil {
			return err
		}
		var body bytes.Buffer
		if err := get(ctx, client(identityLimit), url, &body); err != nil {
			return err
		}
		if err := json.Unmarshal(body.Bytes(), into); err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
		return nil
	}
	var list struct {
		Data []ServedModel `json:"data"`
	}
	if err := read("/v1/models", &list); err != nil {
		return id, err
	}
	for _, path := range versionPaths {
		if read(path, &id) == nil && id.Version != "" {
			break
		}
	}
	id.Models = list.Data
	return id, nil
}
