package job

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// Hold keeps a job going whose servers are ready: it says where they are, in serving.json, and
// returns when the run is asked to stop or, unless most is 0, after that time. url is what a
// client would be given.
func (j *Job) Hold(ctx context.Context, url string, most time.Duration) error {
	if err := j.owns(); err != nil {
		return err
	}
	begun := j.Now()
	s, err := j.serving(ctx, url)
	if err != nil {
		return err
	}
	if most > 0 {
		until := begun.Add(most).UTC().Truncate(time.Second)
		s.Until = &until
	}
	if err := run.WriteJSON(j.path(run.ServingFile), s); err != nil {
		return err
	}
	j.logf("%s serves %s", s.URL, s.Model)
	for {
		_, err := os.Stat(j.path(run.StopFile))
		switch {
		case err == nil:
			return j.event(Event{Event: HoldOver, Text: "the servers were asked to stop"})
		case !errors.Is(err, fs.ErrNotExist):
			j.logf("look for a request to stop: %v", err) // the file system may recover
		case most > 0 && j.Now().Sub(begun) >= most:
			return j.event(Event{Event: HoldOver, Text: fmt.Sprintf("the servers were up for %s, as asked", most)})
		}
		if !sleep(ctx, poll) {
			return ctx.Err()
		}
	}
}

// serving says where the servers are.
func (j *Job) serving(ctx context.Context, url string) (*run.Serving, error) {
	p, place, err := j.load()
	if err != nil {
		return nil, err
	}
	s := &run.Serving{Schema: run.ServingSchema, URL: url, Model: cmp.Or(j.servedName(ctx, url), p.Config.Model),
		Dir: j.Dir, JobID: j.id(), Ready: j.Now().UTC().Truncate(time.Second), Ports: place.Ports}
	for i := range p.Roles {
		role := &p.Roles[i]
		at, err := endpoint(p, place, role, "")
		if err != nil {
			return nil, err
		}
		s.Roles = append(s.Roles, run.ServingRole{Name: role.Name, Host: place.Nodes[role.Nodes.Offset].Host, URL: at,
			GPUs: role.GPUs})
	}
	return s, nil
}

// servedName is the name by which clients ask for the model, as the server lists it; "" if it did
// not say, as one that wants a key does not.
func (j *Job) servedName(ctx context.Context, url string) string {
	var list struct {
		Data []ServedModel `json:"data"`
	}
	var body bytes.Buffer
	err := get(ctx, client(identityLimit), url+"/models", &body)
	if err == nil {
		err = json.Unmarshal(body.Bytes(), &list)
	}
	if err != nil {
		j.logf("models of %s: %v", url, err)
		return ""
	}
	if len(list.Data) == 0 {
		j.logf("%s lists no models", url)
		return ""
	}
	return list.Data[0].ID
}
