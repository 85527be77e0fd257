package stage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// stageModel downloads a model's snapshot. Where the Hugging Face home is not of
// this machine, or no program can download, the model is assumed to be on the nodes,
// and the outcome says so.
func (s *Stager) stageModel(ctx context.Context, item Item) (Outcome, error) {
	o := Outcome{Item: item, State: Present}
	home := s.HFHome()
	if st, err := os.Stat(filepath.Dir(home)); err != nil || !st.IsDir() {
		o.State, o.Detail = Skipped, home+" is not reachable here; the model is assumed to be on the nodes"
		return o, nil
	}
	program := ""
	for _, p := range []string{"hf", "huggingface-cli"} {
		if program == "" && s.has(p) {
			program = p
		}
	}
	there := snapshot(item.Path)
	switch {
	case program == "" && there:
		o.Detail = "neither hf nor huggingface-cli is on the PATH; whether the model is complete was not checked"
		return o, nil
	case program == "":
		o.State, o.Detail = Skipped, "neither hf nor huggingface-cli is on the PATH; the servers will download the model"
		return o, nil
	}
	if !there {
		o.State = Staged
	}
	ask := func() (bool, error) { return false, nil } // only the download itself knows what is complete
	err := s.alone(ctx, item.Path, ask, func() error {
		downloader := *s
		downloader.Environ = append(append([]string(nil), s.Environ...), "HF_HOME="+home,
			"HF_HUB_DISABLE_PROGRESS_BARS=1")
		_, err := downloader.execute(ctx, "", program, "download", item.Name, "--cache-dir", filepath.Join(home, "hub"))
		return err
	})
	if err == nil && !snapshot(item.Path) {
		err = errors.New(program + " ended with 0, but " + item.Path + " holds no complete snapshot")
	}
	return o, err
}

// snapshot reports whether a model's folder holds a snapshot and nothing that is
// half downloaded: <model>/snapshots/<revision>/*, <model>/blobs/*.incomplete.
func snapshot(dir string) bool {
	if half, _ := filepath.Glob(filepath.Join(globQuote(dir), "blobs", "*.incomplete")); len(half) > 0 {
		return false
	}
	files, err := filepath.Glob(filepath.Join(globQuote(dir), "snapshots", "*", "*"))
	for _, f := range files {
		if _, e := os.Stat(f); errors.Is(e, fs.ErrNotExist) {
			return false // a link to a blob that is not there
		}
	}
	return err == nil && len(files) > 0
}
